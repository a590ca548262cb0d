"""Table of the reference segments of all rows in W&B: texts, scores and source audio."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zoo.base.talks import Talk
from zoo.base.types import SAMPLE_RATE, Seconds
from zoo.runs import media
from zoo.runs.rows.row import Row
from zoo.runs.rows.segments import ScoredSegment
from zoo.runs.rows.streams import ReportStream
from zoo.runs.rows.training import Sample

if TYPE_CHECKING:
    import wandb

SAMPLES = ("step", "direction", "talk", "segment", "source", "reference", "hypothesis")
IDENTITY = ("system", "knob", "talk", "offset", "source", "reference", "hypothesis")
AUDIO = "source audio"
CLIPS = 24  # segments with audio: the first ones of the first row,
CLIP: Seconds = 15.0  # and of each its beginning


def segment_table(rows: Sequence[Row], streams: Sequence[ReportStream]) -> "wandb.Table":
    """Return the table, with one line per row of results and segment.

    Its columns are ``IDENTITY``, the scores of the segments (such as the lag ``StreamLAAL``), and
    the source audio of the first segments. Talks without audio have no such column.

    Args:
        rows: rows of results.
        streams: streams of the rows.
    """
    lines = segment_lines(rows, streams)
    segments = [(stream.talk, segment) for stream in streams for segment in stream.segments]
    scores = dict.fromkeys(name for _, segment in segments for name in segment.scores)
    columns = [*IDENTITY, *scores]
    cells = [
        [*line, *(segment.scores.get(name) for name in scores)]
        for line, (_, segment) in zip(lines, segments, strict=True)
    ]
    if any(stream.talk.audio is not None for stream in streams):
        columns.append(AUDIO)
        for place, (talk, segment) in enumerate(segments):
            cells[place].append(_audio(talk, segment) if place < CLIPS else None)
    return media.table(columns, cells)


def segment_lines(rows: Sequence[Row], streams: Sequence[ReportStream]) -> list[list[object]]:
    """Return the texts of each segment of each row, with the columns ``IDENTITY``.

    Args:
        rows: rows of results.
        streams: streams of the rows.
    """
    return [
        [
            rows[stream.row].system,
            rows[stream.row].knob_label,
            stream.talk.name,
            segment.offset,
            segment.source,
            segment.reference,
            segment.hypothesis,
        ]
        for stream in streams
        for segment in stream.segments
    ]


def sample_table(samples: Sequence[Sample]) -> "wandb.Table":
    """Return a table of the translations of a training's samples, with the columns ``SAMPLES``.

    Args:
        samples: segments of the development talks, each with its translation at each evaluation.
    """
    lines = [
        [
            step,
            sample.direction,
            one.talk,
            one.segment,
            one.source,
            one.reference,
            one.hypothesis,
        ]
        for sample in samples
        for step, one in sample.translations.items()
    ]
    return media.table(SAMPLES, lines)


def _audio(talk: Talk, segment: ScoredSegment) -> "wandb.Audio | None":
    """Return the source audio of a segment; None without audio."""
    if talk.audio is None:
        return None
    import wandb

    from zoo.base.audio.files import load  # imports torch, which a recorded log does not need

    length = min(segment.duration, CLIP)
    samples = load(talk.audio, start=talk.offset + segment.offset, duration=length)
    return wandb.Audio(samples.numpy(), sample_rate=SAMPLE_RATE, caption=segment.source)
