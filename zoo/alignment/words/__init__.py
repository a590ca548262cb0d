"""Source words of each word of a translation."""
