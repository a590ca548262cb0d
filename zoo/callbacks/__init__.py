"""Callbacks of a training: streaming evaluation, progress, random state."""
