"""What the texts of talks have besides speech: descriptions of sounds, and names of speakers."""

import re
from dataclasses import replace

from zoo.talks import Segment, Talk

# (Laughter), [Applause], （笑声）, ♪ ... ♪: descriptions of sounds, and comments of transcribers
_TAG = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|（[^（）]*）|【[^【】]*】|♪[^♪]*♪?|<[^<>]*>")
# "Chris Anderson: ..." and "CA: ..."; one to four capitalised words before a colon and a space
_SPEAKER = re.compile(r"^\s*(?:[-–—]\s*)?[A-Z][\w.'’-]*(?: [A-Z][\w.'’-]*){0,3}: ")
# The same in a translation, whose script may have no capitals, and a colon of full width.
_TRANSLATED_SPEAKER = re.compile(
    r"^\s*(?:[-–—]\s*)?[^\s:：,.!?，。！？]+(?: [^\s:：,.!?]+){0,3}[:：]\s*"
)


def find_tag(text: str) -> str | None:
    """Return the first description of a sound in a text, such as ``(Laughter)``; None without."""
    tag = _TAG.search(text)
    return None if tag is None else tag[0]


def find_speaker(text: str) -> str | None:
    """Return the name of the speaker with which a transcript begins, such as ``CA:``, or None."""
    name = _SPEAKER.match(text)
    return None if name is None else name[0].strip()


def is_only_sounds(text: str) -> bool:
    """Return whether a text has no letters or digits besides descriptions of sounds."""
    return bool(text.strip()) and not any(map(str.isalnum, _TAG.sub(" ", text)))


def without_speakers(talk: Talk) -> Talk:
    """Return a talk whose segments begin without the name of the speaker, in all languages.

    A translation loses its name only if the transcript has one. Words, alignments and translations
    of prefixes of changed segments are dropped.
    """
    return replace(talk, segments=tuple(map(_without_speaker, talk.segments)))


def _without_speaker(segment: Segment) -> Segment:
    """Return a segment without the name of its speaker."""
    if find_speaker(segment.source) is None:
        return segment
    targets = {
        code: replace(
            target,
            text=_TRANSLATED_SPEAKER.sub("", target.text),
            words=(),
            alignment=(),
            needs=(),
            prefixes=(),
        )
        for code, target in segment.targets.items()
    }
    source = _SPEAKER.sub("", segment.source)
    return replace(segment, source=source, words=(), targets=targets)
