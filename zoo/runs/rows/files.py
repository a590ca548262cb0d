"""Files and report data of a row of results."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from zoo.base.disk.files import write_text
from zoo.base.talks import Talk
from zoo.base.types import Instance
from zoo.formats import simuleval, simulstream
from zoo.formats.speech import FOLDER, write_speech
from zoo.runs.rows.row import KnobValue
from zoo.runs.rows.segments import ScoredSegment
from zoo.runs.rows.streams import ReportStream


def write_files(
    log: Path, instances: Sequence[Instance], talks: Sequence[Talk], transcripts: Sequence[str]
) -> None:
    """Write the files of a row, also those that the scorers of other tools need beside the log.

    Args:
        log: path of the log; target speech is written to the folder ``speech`` beside it.
        instances: streams.
        talks: talk of each stream.
        transcripts: ASR transcript of each stream, written to ``transcripts.txt`` beside the log,
            one line per talk: name, tab, transcript (empty: no file).
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    simuleval.write_log(log, instances)
    simuleval.write_config(log.parent, speech=False)
    simulstream.write_log(log.with_name("simulstream.jsonl"), instances)
    write_speech(log.parent, instances, talks)
    if any(instance.speech for instance in instances):
        simuleval.write_config(log.parent / FOLDER, speech=True)
    if transcripts:
        lines = [f"{one.talk}\t{text}\n" for one, text in zip(instances, transcripts, strict=True)]
        write_text(log.with_name("transcripts.txt"), "".join(lines))


def report_streams(
    row: int,
    instances: Sequence[Instance],
    talks: Sequence[Talk],
    segments: Sequence[ScoredSegment],
    *,
    spoken: Sequence[ScoredSegment] = (),
) -> Iterator[ReportStream]:
    """Yield the streams of a row as the HTML report shows them.

    Args:
        row: index of the row.
        instances: streams of the row.
        talks: talk of each stream.
        segments: segments of all talks, talk after talk.
        spoken: the same segments with the recognised words of the target speech; may be empty.
    """
    remaining, of_speech = iter(segments), iter(spoken)
    for instance, talk in zip(instances, talks, strict=True):
        count = len(talk.segments)
        yield ReportStream(
            row,
            instance,
            talk,
            segments=tuple(islice(remaining, count)),
            spoken=tuple(islice(of_speech, count)),
        )


def row_folder(run: Path, place: int, system: str, knob: KnobValue | None) -> Path:
    """Return the folder of a row in the run folder.

    It has no "=", which would need quotes on a command line; runs of earlier versions have it.

    Args:
        run: the run folder.
        place: position of the row in the results.
        system: name of the system; it may contain any character.
        knob: latency setting, or None.
    """
    setting = "" if knob is None else f"-{knob.name}{knob.value:g}"
    label = f"{system}{setting}"
    earlier = re.sub(r"[^\w.=+-]+", "-", label)
    name = re.sub(r"[^\w.+-]+", "-", label, flags=re.ASCII)
    folders = [Path("instances") / f"{place:02d}-{one}" for one in (earlier, name)]
    return folders[0] if (run / folders[0]).is_dir() else folders[1]
