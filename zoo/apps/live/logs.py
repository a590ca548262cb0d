"""The log of a stream, with its target speech and, if the talk is known, its references."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from zoo.base.disk.files import write_text
from zoo.base.errors import ZooError
from zoo.base.languages import Language
from zoo.base.talks import Talk, without_references
from zoo.base.types import Instance, Seconds
from zoo.evaluation.talks import reference_segments
from zoo.formats.references import write_spans
from zoo.formats.simuleval import write_log
from zoo.formats.speech import write_speech
from zoo.metrics.references import ReferenceSegment, first_blank
from zoo.metrics.running import begun_segments
from zoo.systems.base import StreamingSystem

LONGEST_SPEECH: Seconds = 3600.0  # an hour of target speech takes 0.6 GB of memory to write


def references_of(talk: Talk | None, target: Language) -> Sequence[ReferenceSegment]:
    """Return the reference segments of a talk; none if a segment has no translation.

    Args:
        talk: Talk of a stream; None: unknown.
        target: Target language.
    """
    if talk is None or not talk.segments:
        return ()
    try:
        references = reference_segments(talk, target)
    except ZooError:
        return ()
    return () if first_blank([references]) is not None else references


def write_stream(
    folder: Path, instance: Instance, talk: Talk | None, system: StreamingSystem, *, name: str
) -> None:
    """Write what a stream has emitted, and in ``stream.json`` by which system.

    Target speech of a stream of more than an hour is left out, also in the log.

    With references, ``segments.yaml`` and ``references.txt`` have those of the segments that have
    begun, as ``data=recorded`` reads them, and the log has the name of the talk.

    Args:
        folder: Existing folder of the stream.
        instance: The stream.
        talk: Talk of the stream; None: unknown.
        system: System that has processed it.
        name: Name of the system on this server.

    Raises:
        OSError: A file cannot be written.
        ZooError: The target speech cannot be written.
    """
    target = system.target_language
    facts = {
        "system": name,
        "direction": system.direction,
        "latency": system.knob_value,
        "weights": dict(system.weights),
    }
    write_text(folder / "stream.json", json.dumps(facts, ensure_ascii=False) + "\n")
    known = begun_segments(references_of(talk, target), instance.source_length)
    if talk is not None and known:
        texts = [" ".join(segment.text.split()) for segment in known]
        instance = replace(instance, talk=talk.name, reference=target.join(texts))
        write_spans(folder / "segments.yaml", [replace(talk, segments=talk.segments[: len(known)])])
        write_text(folder / "references.txt", "".join(f"{text}\n" for text in texts))
    if instance.source_length > LONGEST_SPEECH:
        instance = replace(instance, speech=())
    write_log(folder / "instances.log", [instance])
    silent = without_references(instance.talk, None, instance.source_length, "")
    write_speech(folder, [instance], [silent])
