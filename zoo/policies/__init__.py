"""When to write. Sees sessions and hypotheses, never a network."""
