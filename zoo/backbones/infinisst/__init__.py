"""InfiniSST: simultaneous translation of unbounded speech with a large language model."""
