"""Tokenizers, configurations and weights by name."""
