"""What an evaluation leaves behind: rows, streams and segments of a run folder, and their names."""
