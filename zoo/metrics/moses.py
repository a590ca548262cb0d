"""Moses tokenization of single words (version 1.1, aggressive hyphens, no escapes).

SoftSegmenter aligns these tokens; they are never part of an output.
"""

import re
from functools import cache

from zoo.streaming.abbreviations import moses_prefixes

# Each class and its complement match one character; at the edge of a word neither matches.
LETTER, NO_LETTER = r"[^\W\d_]", r"[\W\d_]"
NUMBER, NO_NUMBER = r"\d", r"\D"
NEITHER = r"[\W_]"  # neither a letter nor a number
DOT = "\x00"  # replaces the dots of an ellipsis, so that they are not split off one by one
OTHER = re.compile(r"([^\w\s.'`,\-]|_)")
HYPHEN = re.compile(r"(?<=[^\W_])-(?=[^\W_])")
DOTS = re.compile(r"\.{2,}")
# Languages in which the apostrophe belongs to the part after it ("it's" becomes "it 's"), and
# languages in which it belongs to the part before it ("l'eau" becomes "l' eau").
CONTRACTION_RIGHT, CONTRACTION_LEFT = frozenset({"en"}), frozenset({"fr", "it"})


@cache
def moses_tokens(word: str, language: str) -> list[str]:
    """Split a lower-case word into tokens: "it's," becomes ["it", "'s", ","] in English.

    Args:
        word: A word without white space.
        language: Language code.

    Returns:
        The tokens; an empty list for white space.
    """
    text = OTHER.sub(r" \1 ", word).strip()
    text = HYPHEN.sub(" @-@ ", text)
    text = DOTS.sub(lambda dots: f" {dots[0].replace('.', DOT)} ", text)
    text = re.sub(rf"(?<={NO_NUMBER}),|,(?={NO_NUMBER})", " , ", text.strip())

    pieces = _split_apostrophes(text, language).split()
    tokens: list[str] = []
    for piece, following in zip(pieces, [*pieces[1:], ""], strict=False):
        tokens.extend(_split_final_dot(piece, following, language))
    return [token.replace(DOT, ".") for token in tokens]


def _split_apostrophes(text: str, language: str) -> str:
    """Insert spaces around apostrophes, in contractions on one side only."""
    quote = rf"(?<={NO_LETTER})'(?={NO_LETTER})|(?<={LETTER})'(?={NO_LETTER})"
    if language in CONTRACTION_RIGHT:
        text = re.sub(rf"{quote}|(?<={NEITHER})'(?={LETTER})", " ' ", text)
        return re.sub(rf"(?<={LETTER})'(?={LETTER})|(?<={NUMBER})'(?=s)", " '", text)
    if language in CONTRACTION_LEFT:
        text = re.sub(rf"{quote}|(?<={NO_LETTER})'(?={LETTER})", " ' ", text)
        return re.sub(rf"(?<={LETTER})'(?={LETTER})", "' ", text)
    return text.replace("'", " ' ")


def _split_final_dot(piece: str, following: str, language: str) -> list[str]:
    """Split off a full stop, except after an abbreviation and before a lower-case piece."""
    if len(piece) < 2 or not piece.endswith("."):
        return [piece]
    stem = piece[:-1]
    dotted = "." in stem and re.search(LETTER, stem)
    if dotted or stem in moses_prefixes(language) or following[:1].islower():
        return [piece]
    return [stem, "."]
