"""LST, the offline form of InfiniSST's network: instruction, all kept speech, then all text."""
