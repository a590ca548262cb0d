"""LST, an offline speech translation model on InfiniSST's network."""
