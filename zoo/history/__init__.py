"""What to forget. Sees sessions and hypotheses, never a network."""
