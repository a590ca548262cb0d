"""Segment lists in YAML with parallel text files, as MuST-C, IWSLT and ACL 60/60 have them."""

from pathlib import Path

from zoo.data.readers.entries import SegmentEntry, at, audio_file
from zoo.formats.references import read_spans, read_texts


def read_entries(
    segments: Path, *, audio: Path, transcripts: Path | None, translations: Path | None
) -> list[tuple[Path, SegmentEntry]]:
    """Return the audio file and the segment of each item of a YAML list.

    Args:
        segments: YAML list with ``offset``, ``duration`` (seconds) and ``wav`` of each segment.
        audio: folder of the audio files.
        transcripts: file with the transcript of segment i on line i; None: no transcripts.
        translations: file with the translation of segment i on line i; None: no references.

    Raises:
        ZooError: a missing file, a damaged list, or texts of another length.
    """
    spans = read_spans(segments)
    sources = [""] * len(spans)
    if transcripts is not None:
        sources = read_texts(transcripts, spans, segments)
    targets: list[str] | list[None] = [None] * len(spans)
    if translations is not None:
        targets = read_texts(translations, spans, segments)

    files: dict[str, Path] = {}
    entries: list[tuple[Path, SegmentEntry]] = []
    for span, source, target in zip(spans, sources, targets, strict=True):
        where = at(segments, span.line)
        if span.wav not in files:
            files[span.wav] = audio_file(audio, span.wav, where=where)
        entry = SegmentEntry(where, span.offset, span.duration, source, target, span.speaker)
        entries.append((files[span.wav], entry))
    return entries
