"""Times of the words of a transcript in audio."""
