"""The tokens of a transcript and the words that they spell.

In languages without spaces a token may spell several characters, and several tokens one character.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from zoo.base.languages import Language


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a transcript.

    Attributes:
        ids: ids in the order of the text.
        texts: shortest parts of the text, in units of its language, that have tokens of their own.
        firsts: index of the first token of each part.
    """

    ids: tuple[int, ...]
    texts: tuple[str, ...]
    firsts: tuple[int, ...]


def word_tokens(tokenizer: Any, text: str, language: Language) -> Tokens:
    """Split a transcript into tokens.

    Args:
        tokenizer: fast tokenizer of Transformers, whose tokens of words begin with their space.
        text: transcript with a letter or digit.
        language: language of the transcript.
    """
    spoken = language.separator + " ".join(text.split())
    encoded = tokenizer(
        spoken,
        add_special_tokens=False,
        split_special_tokens=True,  # "<|en|>" in a transcript is text
        return_offsets_mapping=True,
    )
    unit_starts = set()
    position = 0
    for unit in language.units(text):
        position = spoken.index(unit, position)
        unit_starts.add(position)
        position += len(unit)

    begins: list[tuple[int, int]] = []  # first character and first token of each part
    covered = 0  # end of the characters that earlier tokens spell, completely or in part
    for index, (start, end) in enumerate(encoded.offset_mapping):
        letters = spoken[start:end]
        first = start + len(letters) - len(letters.lstrip())
        is_new = not begins or first > begins[-1][0]  # a space may be a token of its own
        if first in unit_starts and first >= covered and is_new:
            begins.append((first, index))
        covered = max(covered, end)
    edges = [*(first for first, _ in begins), len(spoken)]
    return Tokens(
        ids=tuple(encoded.input_ids),
        texts=tuple(spoken[start:end].strip() for start, end in pairwise(edges)),
        firsts=(0, *(index for _, index in begins[1:])),
    )
