"""Live interpretation: a server that translates the speech of many users while they speak."""
