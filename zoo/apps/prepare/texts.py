"""What the texts of talks have besides speech: descriptions of sounds, and names of speakers."""

import re
from dataclasses import replace

from zoo.base.talks import Segment, Talk

# (Laughter), [Applause], （笑声）, ♪ ... ♪: descriptions of sounds, and comments of transcribers
_TAG = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|（[^（）]*）|【[^【】]*】|♪[^♪]*♪?|<[^<>]*>")
_START = rf"^(\s*(?:(?:{_TAG.pattern})\s*)*)(?:[-–—]\s*)?"  # of a text, with its sounds
# "Chris Anderson: ..." and "CA: ..."; one to four capitalised words before a colon and a space
_SPEAKER = re.compile(_START + r"([A-Z][\w.'’-]*(?: [A-Z][\w.'’-]*){0,3}): ")
# The same in a translation, whose script may have no capitals, and a colon of full width.
_TRANSLATED_SPEAKER = re.compile(_START + r"([^\s:：,.!?，。！？]+(?: [^\s:：,.!?]+){0,3})[:：]\s*")


def find_tag(text: str) -> str | None:
    """Return the first description of a sound in a text, such as ``(Laughter)``; None without."""
    tag = _TAG.search(text)
    return None if tag is None else tag[0]


def find_speaker(text: str) -> str | None:
    """Return the name of the speaker with which a transcript begins, such as ``CA:``, or None.

    Descriptions of sounds may be before it.
    """
    name = _SPEAKER.match(text)
    return None if name is None else f"{name[2]}:"


def is_only_sounds(text: str) -> bool:
    """Return whether a text has no letters or digits besides descriptions of sounds."""
    return bool(text.strip()) and not any(map(str.isalnum, _TAG.sub(" ", text)))


def without_speakers(talk: Talk) -> Talk:
    """Return a talk whose segments begin without names of speakers, in all languages.

    A transcript may begin with several, as in "Video: Don Blankenship: Let me". A translation loses
    as many names as its transcript. Words, alignments and translations of prefixes of changed
    segments are dropped.
    """
    return replace(talk, segments=tuple(map(_without_speaker, talk.segments)))


def _without_speaker(segment: Segment) -> Segment:
    """Return a segment without the names of speakers at its start."""
    source, names = segment.source, 0
    while find_speaker(source) is not None:
        source, names = _SPEAKER.sub(r"\1", source), names + 1
    if not names:
        return segment
    targets = {}
    for code, target in segment.targets.items():
        text = target.text
        for _ in range(names):
            text = _TRANSLATED_SPEAKER.sub(r"\1", text)
        targets[code] = replace(target, text=text, words=(), alignment=(), needs=(), prefixes=())
    return replace(segment, source=source, words=(), targets=targets)
