"""Makes talks of the recordings that a corpus lists, and refuses what does not fit.

Nothing is corrected silently: a segment is either used as it is listed, or an error names its file
and line. The one exception is a segment that ends after its audio by no more than the rounding
of the corpus.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path

from zoo.base.audio import files as audio
from zoo.base.disk.files import check_name_is_text
from zoo.base.errors import ZooError
from zoo.base.talks import Segment, Talk, Target, check_talk_name, of_one_name
from zoo.base.types import Seconds
from zoo.data.readers.entries import Recording, SegmentEntry, one_spaced
from zoo.data.readers.films import streamable_file
from zoo.formats.segment_order import in_order
from zoo.formats.text import check_can_be_written

# Seconds by which a segment may end after its audio, because the corpus has rounded times. Such a
# segment is cut at the end of its audio.
OVERHANG: Seconds = 0.5


def build_talks(
    recordings: Sequence[Recording],
    *,
    source: str,
    target: str,
    limit: int | None = None,
    overhang: Seconds = OVERHANG,
) -> list[Talk]:
    """Return the talks of recordings, in their order, segments in order of time.

    Args:
        recordings: what the corpus lists.
        source: code of the source language.
        target: code of the language of the translations.
        limit: number of talks from the start; None: all. Only their audio files are opened.
        overhang: seconds by which a segment may end after its audio.

    Raises:
        ZooError: two recordings have one name, only some segments have a translation, a text has
            half of a character or a zero byte, an audio file is missing or damaged, or the times
            of a segment do not fit.
    """
    _check_names(recordings)
    _check_translations(recordings)
    lengths: dict[Path, Seconds] = {}
    return [
        _talk(_decoded(one), source=source, target=target, overhang=overhang, lengths=lengths)
        for one in recordings[:limit]
    ]


def _check_names(recordings: Sequence[Recording]) -> None:
    """Raise ZooError for a name that cannot be shown, and for two recordings of one name.

    Logs and reports name them alike.
    """
    for one in recordings:
        check_name_is_text(one.audio)
        check_talk_name(one.name, one.where)
    if same_name := of_one_name(recordings):
        other, one = same_name
        raise ZooError(
            f"{one.where}: two recordings have the name {one.name!r}, {other.audio} and "
            f"{one.audio}; rename one of them."
        )


def _check_translations(recordings: Sequence[Recording]) -> None:
    """Raise ZooError if only some segments have a translation."""
    entries = [entry for one in recordings for entry in one.entries]
    with_target = next((entry for entry in entries if entry.target is not None), None)
    without = next((entry for entry in entries if entry.target is None), None)
    if with_target and without:
        raise ZooError(
            f"{without.where} has no translation, but {with_target.where} has one; "
            "either all segments have a translation or none."
        )


def _decoded(one: Recording) -> Recording:
    """Return a recording whose audio can be streamed. Raises ZooError if it has none."""
    if not one.audio.is_file():
        raise ZooError(f"{one.where}: audio file {one.audio} does not exist.")
    try:
        return replace(one, audio=streamable_file(one.audio))
    except ZooError as error:
        raise ZooError(f"{one.where}: {error}") from error


def _talk(
    one: Recording,
    *,
    source: str,
    target: str,
    overhang: Seconds,
    lengths: dict[Path, Seconds],
) -> Talk:
    """Return the talk of a recording; arguments as ``build_talks``.

    Args:
        one: the recording.
        source: code of the source language.
        target: code of the language of the translations.
        overhang: seconds by which a segment may end after its audio.
        lengths: duration of each audio file that was opened.
    """
    length = _length(one, overhang=overhang, lengths=lengths)
    listed = []
    for entry in one.entries:
        check_can_be_written(entry.where, entry.source, entry.target, entry.speaker)
        targets = {} if entry.target is None else {target: Target(one_spaced(entry.target))}
        offset, duration = _span(entry, one, length=length, overhang=overhang)
        segment = Segment(offset, duration, one_spaced(entry.source), targets=targets)
        listed.append((segment, entry.where))
    first = min(one.entries, key=lambda entry: entry.offset)
    return Talk(
        one.name,
        one.audio,
        length,
        source,
        in_order(listed, one.audio),
        offset=one.offset,
        voice=first.speaker,
    )


def _length(one: Recording, *, overhang: Seconds, lengths: dict[Path, Seconds]) -> Seconds:
    """Return the duration of a recording. Raises ZooError if its audio file does not contain it."""
    if one.audio not in lengths:
        try:
            lengths[one.audio] = audio.duration(one.audio)
        except ZooError as error:
            raise ZooError(f"{one.where}: {error}") from error
    file = lengths[one.audio]
    duration = file - one.offset if one.duration is None else one.duration
    if not (0 <= one.offset < file and 0 < duration <= file - one.offset + overhang):
        raise ZooError(
            f"{one.where}: the recording from {one.offset:.2f} to {one.offset + duration:.2f} s "
            f"does not lie in {one.audio}, which lasts {file:.2f} s."
        )
    return min(duration, file - one.offset)


def _span(
    entry: SegmentEntry, one: Recording, *, length: Seconds, overhang: Seconds
) -> tuple[Seconds, Seconds]:
    """Return offset and duration of a segment. Raises ZooError if it does not lie in its audio."""
    duration = length - entry.offset if entry.duration is None else entry.duration
    end = entry.offset + duration
    if not isfinite(end) or duration <= 0:
        raise ZooError(
            f"{entry.where}: a segment lasts from {entry.offset:.2f} to {end:.2f} s; "
            "it must end after its start."
        )
    if not (0 <= entry.offset < length and end <= length + overhang):
        raise ZooError(
            f"{entry.where}: the segment from {entry.offset:.2f} to {end:.2f} s does not lie in "
            f"{one.audio}, which lasts {length:.2f} s."
        )
    return entry.offset, min(duration, length - entry.offset)
