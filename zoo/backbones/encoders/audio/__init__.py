"""Features of the source audio, computed incrementally."""
