"""How a spoken word is told apart from others: without case and punctuation."""

import string


def spelling(word: str) -> str:
    """A word without case and punctuation."""
    return word.lower().strip(string.punctuation)
