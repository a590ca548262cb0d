"""Reads MuST-C in its published layout as talks without word times.

``<root>/en-de/data/<split>/txt/<split>.yaml|.en|.de`` and ``<root>/en-de/data/<split>/wav/*.wav``:
the texts have one line per item of the YAML list (``duration``, ``offset``, ``speaker_id``,
``wav``).
"""

from collections.abc import Iterable
from pathlib import Path

from zoo import audio
from zoo.data.talks import Segment, Talk, Target
from zoo.errors import ZooError
from zoo.formats.references import Span, read_spans, read_texts
from zoo.types import Seconds

# Seconds by which a segment may end after its audio, because the corpus has rounded times. Such a
# segment is cut at the end of its audio.
OVERHANG: Seconds = 0.5


def read(root: str | Path, split: str, source: str, target: str) -> list[Talk]:
    """Read the talks of a split in the order of the YAML file, segments in order of time.

    Args:
        root: folder of the corpus, or of the language pair in it.
        split: name of the split.
        source: code of the source language.
        target: code of the target language.

    Raises:
        ZooError: missing folders or files, texts and YAML of unequal length, or a segment outside
            its audio.
    """
    folder = _split_folder(Path(root), split=split, pair=f"{source}-{target}")
    segment_list = folder / "txt" / f"{split}.yaml"
    spans = read_spans(segment_list)
    sources = read_texts(folder / "txt" / f"{split}.{source}", spans, segment_list)
    translations = read_texts(folder / "txt" / f"{split}.{target}", spans, segment_list)
    talks: dict[str, list[tuple[Span, Segment]]] = {}
    for span, transcript, translation in zip(spans, sources, translations, strict=True):
        segment = Segment(
            span.offset,
            span.duration,
            source=_one_spaced(transcript),
            targets={target: Target(_one_spaced(translation))},
        )
        talks.setdefault(span.wav, []).append((span, segment))
    return [_talk(folder / "wav" / wav, rows=rows, source=source) for wav, rows in talks.items()]


def _one_spaced(text: str) -> str:
    """Return a text with single spaces between words."""
    return " ".join(text.split())


def _split_folder(root: Path, *, split: str, pair: str) -> Path:
    """Return the folder of a split. Raises ZooError if it does not exist."""
    base = root / pair if (root / pair).is_dir() else root
    if not (base / "data").is_dir():
        raise ZooError(
            f"MuST-C is not in {root}: it has no folder {pair}/data; "
            "download the corpus by hand and unpack it there."
        )
    folder = base / "data" / split
    if not folder.is_dir():
        splits = (
            ", ".join(sorted(path.name for path in (base / "data").iterdir() if path.is_dir()))
            or "none"
        )
        raise ZooError(f"MuST-C in {base} has no split {split!r}; it has: {splits}.")
    return folder


def _talk(path: Path, *, rows: Iterable[tuple[Span, Segment]], source: str) -> Talk:
    ordered = sorted(rows, key=lambda row: row[1].offset)
    length = audio.duration(path)
    segments = tuple(_cut_at_audio_end(segment, path=path, length=length) for _, segment in ordered)
    return Talk(path.stem, path, length, source, segments, voice=ordered[0][0].speaker)


def _cut_at_audio_end(segment: Segment, *, path: Path, length: Seconds) -> Segment:
    """Return a segment that ends at the end of its audio at the latest.

    Raises ZooError if the segment does not lie in its audio.
    """
    starts_inside = 0 <= segment.offset < length
    ends_inside = segment.end <= length + OVERHANG
    if not (starts_inside and ends_inside and segment.duration > 0):
        raise ZooError(
            f"MuST-C segment from {segment.offset:.2f} to {segment.end:.2f} s does not lie in "
            f"{path}, which lasts {length:.2f} s."
        )
    duration = min(segment.duration, length - segment.offset)
    return Segment(segment.offset, duration, segment.source, segment.words, segment.targets)
