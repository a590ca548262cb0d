"""What looks at a training while it runs: streaming evaluation, progress, random state."""
