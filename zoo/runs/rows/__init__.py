"""The rows of a run folder: streams, segments, scores and their names. Imports no torch."""
