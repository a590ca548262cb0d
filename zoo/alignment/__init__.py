"""Alignment of a corpus: times of its source words, and source words of its target words."""
