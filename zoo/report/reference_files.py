"""Reads the reference files that go with recorded logs: a segment YAML and one sentence per line. Knows no metric."""

from collections.abc import Sequence
from pathlib import Path

import yaml

from zoo.errors import ZooError
from zoo.metrics.references import ReferenceSegment
from zoo.types import Instance

AUDIO_SUFFIXES = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a", ".mp4")


def read_references(segments: Path, texts: Path) -> dict[str, list[ReferenceSegment]]:
    """Reference segments by talk. The YAML lists offset, duration (seconds) and wav; line i belongs to entry i.

    Raises ZooError for a missing file, another shape or unequal counts.
    """
    for path in (segments, texts):
        if not path.is_file():
            raise ZooError(f"There is no file {path}.")
    entries = yaml.load(segments.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    if not isinstance(entries, list) or not all({"offset", "duration", "wav"} <= set(entry) for entry in entries):
        raise ZooError(f"{segments} is not a list of segments with offset, duration and wav.")
    lines = texts.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    if len(lines) != len(entries):
        raise ZooError(f"{segments} has {len(entries)} segments but {texts} has {len(lines)} lines.")
    talks: dict[str, list[ReferenceSegment]] = {}
    for entry, line in zip(entries, lines, strict=True):
        segment = ReferenceSegment(float(entry["offset"]), float(entry["duration"]), line.strip())
        talks.setdefault(recording_name(str(entry["wav"])), []).append(segment)
    return talks


def references_of(
    instances: Sequence[Instance], references: dict[str, list[ReferenceSegment]]
) -> list[list[ReferenceSegment]]:
    """The references of each instance. Raises ZooError naming a talk that has none."""
    for instance in instances:
        if instance.talk not in references:
            raise ZooError(f"Talk {instance.talk!r} has no reference; there are some for: {', '.join(references)}.")
    return [references[instance.talk] for instance in instances]


def recording_name(path: str) -> str:
    """``a/2022.acl-long.110.wav`` -> ``2022.acl-long.110``: no folder, no audio suffix, any other dot stays."""
    base = Path(path).name
    return base.rpartition(".")[0] if base.lower().endswith(AUDIO_SUFFIXES) else base
