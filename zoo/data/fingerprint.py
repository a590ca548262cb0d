"""Hashes of talks: scores on talks with equal hashes can be compared."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from zoo.data.talks import Segment, Talk, Target


def content_hash(talks: Sequence[Talk]) -> str:
    """SHA-256 over names, voices, texts, translations, alignments and word times, without audio."""
    return hashlib.sha256("".join(map(talk_hash, talks)).encode()).hexdigest()


def audio_hash(talk: Talk) -> str:
    """SHA-256 of the audio file; the last bit of resampled values may differ between CPU models."""
    return hashlib.sha256(talk.file.read_bytes()).hexdigest()


def talk_hash(talk: Talk) -> str:
    """SHA-256 of one talk without its audio; times in milliseconds."""
    item = [
        talk.name,
        talk.voice,
        talk.source_language,
        round(talk.duration * 1000),
        list(map(_segment, talk.segments)),
    ]
    return hashlib.sha256(json.dumps(item, sort_keys=True).encode()).hexdigest()


def targets_content(targets: Mapping[str, Target]) -> dict[str, list[Any]]:
    """Text, words, alignment and needed words of every translation, for JSON."""
    return {
        code: [target.text, target.words, target.alignment, target.needs]
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
