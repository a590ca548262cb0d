"""How Moses' tokenizer (version 1.1, aggressive hyphens, no escapes) cuts one word. Knows no sentence.

SoftSegmenter matches such pieces; nothing here is shown to anybody.
"""

import re
from functools import cache

from zoo.abbreviations import moses_prefixes

# each class and its complement match one character: at the edge of a word neither does
LETTER, NO_LETTER = r"[^\W\d_]", r"[\W\d_]"
NUMBER, NO_NUMBER = r"\d", r"\D"
NEITHER = r"[\W_]"
DOT = "\x00"  # a dot of an ellipsis
OTHER = re.compile(r"([^\w\s.'`,\-]|_)")
HYPHEN = re.compile(r"(?<=[^\W_])-(?=[^\W_])")
DOTS = re.compile(r"\.{2,}")
CONTRACTION_RIGHT, CONTRACTION_LEFT = frozenset({"en"}), frozenset({"fr", "it"})


@cache
def moses_tokens(word: str, language: str) -> list[str]:
    """Pieces of a lower-cased word, e.g. "it's," -> ["it", "'s", ","] in English; [] for white space."""
    text = OTHER.sub(r" \1 ", word).strip()
    text = HYPHEN.sub(" @-@ ", text)
    text = DOTS.sub(lambda dots: f" {dots[0].replace('.', DOT)} ", text)
    text = re.sub(rf"(?<={NO_NUMBER}),|,(?={NO_NUMBER})", " , ", text.strip())
    pieces = _apostrophes(text, language).split()
    tokens: list[str] = []
    for index, piece in enumerate(pieces):
        tokens.extend(
            _final_dot(piece, pieces[index + 1] if index + 1 < len(pieces) else "", language)
        )
    return [token.replace(DOT, ".") for token in tokens]


def _apostrophes(text: str, language: str) -> str:
    quote = rf"(?<={NO_LETTER})'(?={NO_LETTER})|(?<={LETTER})'(?={NO_LETTER})"
    if language in CONTRACTION_RIGHT:
        text = re.sub(rf"{quote}|(?<={NEITHER})'(?={LETTER})", " ' ", text)
        return re.sub(rf"(?<={LETTER})'(?={LETTER})|(?<={NUMBER})'(?=s)", " '", text)
    if language in CONTRACTION_LEFT:
        text = re.sub(rf"{quote}|(?<={NO_LETTER})'(?={LETTER})", " ' ", text)
        return re.sub(rf"(?<={LETTER})'(?={LETTER})", "' ", text)
    return text.replace("'", " ' ")


def _final_dot(piece: str, following: str, language: str) -> list[str]:
    """A full stop is cut off, except after abbreviations and before lower case."""
    if len(piece) < 2 or not piece.endswith("."):
        return [piece]
    stem = piece[:-1]
    dotted = "." in stem and re.search(LETTER, stem)
    if dotted or stem in moses_prefixes(language) or following[:1].islower():
        return [piece]
    return [stem, "."]
