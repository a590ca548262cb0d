"""Hashes of talks: scores on talks with equal hashes can be compared."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from zoo.base.disk.files import sha256
from zoo.base.disk.tar_members import member_of
from zoo.base.talks import Segment, Talk, Target


def content_hash(talks: Sequence[Talk]) -> str:
    """Return a SHA-256 of names, voices, texts, translations, alignments and word times.

    The audio is not part of the hash.
    """
    return hashlib.sha256("".join(map(talk_hash, talks)).encode()).hexdigest()


def audio_hash(talk: Talk) -> str:
    """Return a SHA-256 of the audio file of a talk.

    The file is hashed, not the samples: the last bit of resampled samples differs between CPU
    models.
    """
    member = member_of(talk.file)
    if member is None:
        return sha256(talk.file)
    with member.open() as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def talk_hash(talk: Talk) -> str:
    """Return a SHA-256 of a talk without its audio; times are rounded to milliseconds."""
    item = [
        talk.name,
        talk.voice,
        talk.source_language,
        round(talk.duration * 1000),
        list(map(_segment, talk.segments)),
    ]
    return hashlib.sha256(json.dumps(item, sort_keys=True).encode()).hexdigest()


def targets_content(targets: Mapping[str, Target]) -> dict[str, list[Any]]:
    """Return text, words, alignment, needed words and any prefixes of translations, for JSON."""
    return {
        code: [
            *(target.text, target.words, target.alignment, target.needs),
            *([target.prefixes] if target.prefixes else []),
        ]
        for code, target in targets.items()
    }


def _segment(segment: Segment) -> list[Any]:
    words = [
        [word.text, round(word.start * 1000), round(word.end * 1000)] for word in segment.words
    ]
    return [
        segment.source,
        round(segment.offset * 1000),
        round(segment.duration * 1000),
        words,
        targets_content(segment.targets),
    ]
