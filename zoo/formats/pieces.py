"""The text of tokens in the forms in which tokenizers write them.

A log has the tokens of one tokenizer. Most of them are pieces of words, and each family marks
differently where a word begins or ends.
"""

import re
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from zoo.base.errors import ZooError, check_choice

SPACE_MARK = "\u2581"  # SentencePiece
_BYTE = re.compile(r"<0x([\dA-Fa-f]{2})>")  # SentencePiece, for a character without a piece
# Tokens without text: starts, ends, padding and languages.
_SPECIAL = re.compile(
    r"</?s>|<pad>|<[be]os>|<\|[^|<>]*\|>|<(?:start|end)_of_turn>|\[(?:CLS|SEP|PAD)\]"
    r"|__[a-z]{3}__|[a-z]{3}_[A-Z][a-z]{3}"
)
ToBytes = Callable[[str], bytes]  # the text of a token in UTF-8, with the spaces around it
# Names of the forms; ``words``: each token is a word or a character, ``text``: with its spaces.
PieceForm = Literal[
    "words", "text", "sentencepiece", "byte_level", "wordpiece", "end_of_word", "continued"
]


def _byte_alphabet() -> dict[str, int]:
    """Return the byte of each character of byte-level BPE (Radford et al., 2019).

    Printable bytes are written as the characters of Latin-1, the others as U+0100 and following.
    """
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = [byte for byte in range(256) if byte not in printable]
    return {
        **{chr(byte): byte for byte in printable},
        **{chr(256 + place): byte for place, byte in enumerate(others)},
    }


BYTES = _byte_alphabet()


def is_special(token: str) -> bool:
    """Return whether a token has no text."""
    return _SPECIAL.fullmatch(token) is not None


def find_form(emitted: Iterable[str], streams: Sequence[Sequence[str]]) -> ToBytes | None:
    """Return how the tokens of a log become text; None: each token is a word or a character.

    Args:
        emitted: all tokens, also those that were deleted.
        streams: the tokens of each stream in the end.
    """
    tokens = {token for token in emitted if not is_special(token)}
    if any(SPACE_MARK in token or _BYTE.fullmatch(token) for token in tokens):
        return _sentencepiece
    if _is_byte_level(tokens, streams):
        return _byte_level
    if any(token.startswith("##") and token != "##" for token in tokens):
        return _wordpiece
    if any(token.endswith("</w>") for token in tokens):
        return _end_of_word
    if any(token.endswith("@@") for token in tokens):
        return _continued
    if any(token != token.strip() for token in tokens):
        return str.encode  # decoded pieces with their spaces
    return None


def named_form(name: PieceForm, emitted: Iterable[str]) -> ToBytes | None:
    """Return how tokens of a named form become text, as ``find_form``.

    Args:
        name: the form.
        emitted: all tokens of the log.

    Raises:
        ZooError: the name is unknown, or the tokens do not have this form.
    """
    check_choice("system.pieces", name, FORMS)
    tokens = {token for token in emitted if not is_special(token)}
    form, mark = FORMS[name]
    if form is _byte_level and (
        foreign := sorted(token for token in tokens if not set(token) <= BYTES.keys())
    ):
        raise ZooError(
            f"system.pieces=byte_level does not fit: token {foreign[0]!r} has characters that are "
            "not in the alphabet of byte-level BPE."
        )
    if mark and tokens and not any(re.search(mark, token) for token in tokens):
        raise ZooError(f"system.pieces={name} does not fit: no token of the log has its mark.")
    return form


def _is_byte_level(tokens: Iterable[str], streams: Sequence[Sequence[str]]) -> bool:
    """Return whether tokens are those of byte-level BPE with characters beyond ASCII or spaces."""
    if all(token.isascii() for token in tokens) or not all(
        character in BYTES for token in tokens for character in token
    ):
        return False
    try:
        for stream in streams:
            content = b"".join(_byte_level(token) for token in stream if not is_special(token))
            text = getincrementaldecoder("utf-8")().decode(content)
            if any(character < " " and not character.isspace() for character in text):
                return False
    except UnicodeDecodeError:  # words of Latin-1, or of Maltese, which has the mark as a letter
        return False
    return True


def _sentencepiece(token: str) -> bytes:
    if byte := _BYTE.fullmatch(token):
        return bytes([int(byte[1], 16)])
    return token.replace(SPACE_MARK, " ").encode()


def _byte_level(token: str) -> bytes:
    return bytes(BYTES[character] for character in token)


def _wordpiece(token: str) -> bytes:
    return (token[2:] if token.startswith("##") else f" {token}").encode()


def _end_of_word(token: str) -> bytes:
    return re.sub("</w>$", " ", token).encode()


def _continued(token: str) -> bytes:
    return (token[:-2] if token.endswith("@@") else f"{token} ").encode()


# How tokens of each form become text, and the mark that some of them have.
FORMS: dict[str, tuple[ToBytes | None, str]] = {
    "words": (None, ""),
    "text": (str.encode, ""),
    "sentencepiece": (_sentencepiece, f"{SPACE_MARK}|{_BYTE.pattern}"),
    "byte_level": (_byte_level, ""),
    "wordpiece": (_wordpiece, "^##."),
    "end_of_word": (_end_of_word, "</w>$"),
    "continued": (_continued, "@@$"),
}
