"""Offline encoder-decoders whose cross-attention is the alignment."""
