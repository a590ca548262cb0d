"""Lightning callbacks: streaming evaluation, progress display and random states."""
