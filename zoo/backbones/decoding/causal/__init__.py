"""Causal language models: attention, rotary positions, and branches over one cache."""
