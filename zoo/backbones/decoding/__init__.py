"""Decoding: greedy, beam and guessed search, their rules, steps with static shapes, alignment."""
