"""The normal form of a spoken word."""

import string


def spelling(word: str) -> str:
    """Return a word in lower case, without punctuation at its ends."""
    return word.lower().strip(string.punctuation)
