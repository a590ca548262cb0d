"""Reads MuST-C's published layout as talks. Knows no audio content (only lengths) and no word times.

``<root>/en-de/data/<split>/txt/<split>.yaml|.en|.de`` and ``<root>/en-de/data/<split>/wav/*.wav``: one line of each
text per item of the YAML list (``duration``, ``offset``, ``speaker_id``, ``wav``).
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from zoo import audio
from zoo.data.talks import Segment, Talk, Target
from zoo.errors import ZooError
from zoo.types import Seconds

OVERHANG: Seconds = (
    0.5  # a segment may end this much behind its audio (rounding in the corpus); it is cut there
)
_Loader = getattr(
    yaml, "CSafeLoader", yaml.SafeLoader
)  # ten times faster where libyaml was built in


def read(root: str | Path, split: str, source: str, target: str) -> list[Talk]:
    """The talks of a split in order of the YAML file, segments in order of time, one target language.

    root: the corpus, or its folder of the language pair. Raises ZooError for missing folders and files, for texts and
    YAML of unequal length, and for segments that do not lie in their audio.
    """
    folder = _split_folder(Path(root), split=split, pair=f"{source}-{target}")
    items = _items(folder / "txt" / f"{split}.yaml")
    texts = {
        code: _lines(folder / "txt" / f"{split}.{code}", expected=len(items))
        for code in (source, target)
    }
    rows: dict[str, list[tuple[dict[str, Any], Segment]]] = {}
    for item, spoken, translated in zip(items, texts[source], texts[target], strict=True):
        segment = Segment(
            item["offset"], item["duration"], spoken, targets={target: Target(translated)}
        )
        rows.setdefault(item["wav"], []).append((item, segment))
    return [_talk(folder / "wav" / wav, rows=talk, source=source) for wav, talk in rows.items()]


def _split_folder(root: Path, *, split: str, pair: str) -> Path:
    base = root / pair if (root / pair).is_dir() else root
    if not (base / "data").is_dir():
        raise ZooError(
            f"MuST-C is not in {root}: it has no folder {pair}/data; download the corpus by hand and unpack it there."
        )
    folder = base / "data" / split
    if not folder.is_dir():
        known = (
            ", ".join(sorted(path.name for path in (base / "data").iterdir() if path.is_dir()))
            or "none"
        )
        raise ZooError(f"MuST-C in {base} has no split {split!r}; it has: {known}.")
    return folder


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ZooError(
            f"MuST-C file {path} cannot be read ({getattr(error, 'strerror', None) or error})."
        ) from error


def _lines(path: Path, *, expected: int) -> list[str]:
    lines = [" ".join(line.split()) for line in _read(path).removesuffix("\n").split("\n")]
    if len(lines) != expected:
        raise ZooError(
            f"MuST-C file {path} has {len(lines)} lines, but the YAML file has {expected} segments."
        )
    return lines


def _items(path: Path) -> list[dict[str, Any]]:
    try:
        items = yaml.load(_read(path), Loader=_Loader)
        return [
            {
                "offset": float(item["offset"]),
                "duration": float(item["duration"]),
                "wav": str(item["wav"]),
                "voice": str(item.get("speaker_id", "")),
            }
            for item in items
        ]
    except (yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ZooError(
            f"MuST-C file {path} is not a YAML list of segments with duration, offset and wav: {error!r}."
        ) from error


def _talk(path: Path, *, rows: Iterable[tuple[dict[str, Any], Segment]], source: str) -> Talk:
    ordered = sorted(rows, key=lambda row: row[1].offset)
    length = audio.duration(path)
    segments = tuple(_inside(segment, path=path, length=length) for _, segment in ordered)
    return Talk(path.stem, path, length, source, segments, voice=ordered[0][0]["voice"])


def _inside(segment: Segment, *, path: Path, length: Seconds) -> Segment:
    """The segment, ending with its audio at the latest."""
    inside = (
        0 <= segment.offset < length and segment.duration > 0 and segment.end <= length + OVERHANG
    )
    if not inside:
        raise ZooError(
            f"MuST-C segment from {segment.offset:.2f} to {segment.end:.2f} s does not lie in {path}, "
            f"which lasts {length:.2f} s."
        )
    duration = min(segment.duration, length - segment.offset)
    return Segment(segment.offset, duration, segment.source, segment.words, segment.targets)
