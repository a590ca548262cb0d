"""Scores of whole talks, each with one hypothesis and many reference segments."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from math import inf

from zoo.base.languages import Language
from zoo.base.types import Convention, Instance, Seconds, UnitKind
from zoo.metrics.elapsed import fbk_elapsed, omnisteval_elapsed
from zoo.metrics.latency import AL, AP, DAL, LAAL, MS, YAAL, SegmentLatency, Timing, milliseconds
from zoo.metrics.quality import BLEU
from zoo.metrics.references import ReferenceSegment, check_talks
from zoo.metrics.resegmentation import MWER, Resegmenter
from zoo.metrics.rules import Rules, find_rules
from zoo.metrics.scores import ElapsedInfo, Scorer, prepare_instances
from zoo.metrics.signature import Score
from zoo.metrics.sums import SummedMetric

LONG_METRICS: dict[str, type[SegmentLatency]] = {"AL": AL, "LAAL": LAAL, "AP": AP, "DAL": DAL}


@dataclass(frozen=True, slots=True)
class TimedSegment:
    """A reference segment and the units assigned to it.

    Times of units are seconds from the start of the segment.

    Attributes:
        talk: Name of the talk.
        offset: Start of the segment in seconds from the start of the talk.
        duration: Duration of the segment in seconds.
        reference: Reference text.
        hypothesis: Text of the assigned units.
        delays: Ideal time of each unit, for the Long metrics.
        elapsed: Computation-aware time of each unit, for the Long metrics; may be empty.
        stream_delays: Ideal time of each unit, for StreamLAAL, like the next two in milliseconds
            under rules that compare milliseconds.
        stream_elapsed: Computation-aware time of each unit; may be empty.
        stream_length: Duration of the segment.
        recording_end: End of the recording in seconds from the start of the segment.
    """

    talk: str
    offset: Seconds
    duration: Seconds
    reference: str
    hypothesis: str
    delays: tuple[Seconds, ...]
    elapsed: tuple[Seconds, ...]
    stream_delays: tuple[float, ...]
    stream_elapsed: tuple[float, ...]
    stream_length: float
    recording_end: Seconds


@dataclass(frozen=True, slots=True)
class LongFormScores:
    """Result of :func:`score_talks`.

    Attributes:
        scores: Scores by name; times are seconds.
        segments: All segments in the order of the references, talk after talk.
        talks: Scores of each talk alone, in the order of the talks.
    """

    scores: dict[str, Score]
    segments: list[TimedSegment]
    talks: list[dict[str, Score]]


def score_talks(
    instances: Sequence[Instance],
    references: Sequence[Sequence[ReferenceSegment]],
    *,
    language: Language,
    resegmenter: Resegmenter = MWER,
    convention: Convention = "queue",
    rules: str = "zoo",
    repair: bool = True,
    with_speech: bool = False,
    extra: Mapping[str, SummedMetric] | None = None,
    each_talk: bool = False,
    alike: Callable[[str], str] | None = None,
) -> LongFormScores:
    """Score talks against their reference segments.

    Args:
        instances: One stream per talk.
        references: The segments of each talk; ``references[i]`` belongs to ``instances[i]``.
        language: Target language.
        resegmenter: Assigns units to segments.
        convention: Elapsed convention; a recorded log without chunk times keeps its convention.
        rules: Name of the counting rules (``zoo.metrics.rules``).
        repair: Whether to correct cumulative elapsed times as FBK (StreamLAAL_CA) and OmniSTEval
            (Long..._CA) do.
        with_speech: Whether to compute StartOffset and EndOffset from the target speech, and also
            its gaps and overlap.
        extra: More metrics by name, each a ``SegmentLatency``, computed on the re-segmented talks
            like the Long metrics, or a ``CorpusQuality``.
        each_talk: Whether to score each talk alone, too.
        alike: Converts units and references before they are aligned, so that those of the same
            words are equal. Nothing else is converted.

    Returns:
        The scores, and the segments with their units.

    Raises:
        ZooError: A talk has no reference, occurs twice, or has unequal numbers of units and times.
    """
    counting = find_rules(rules)
    check_talks(instances, references)
    talks = prepare_instances(instances, convention, counting)
    elapsed = ElapsedInfo.of(talks)
    is_logged = any(talk.repaired for talk in talks)
    repaired = repair and elapsed.convention == "cumulative" and not is_logged

    divide = partial(
        timed_segments,
        language=language,
        resegmenter=resegmenter,
        rules=counting,
        repaired=repaired,
        alike=alike or str,
    )
    pieces_of_talks = [divide(*pair) for pair in zip(talks, references, strict=True)]

    facts: dict[str, str | None] = {"reseg": resegmenter.signature(counting)}
    scorer = Scorer(language, counting, elapsed, facts, extra or {})

    def scores(part: slice) -> dict[str, Score]:
        segments = list(chain.from_iterable(pieces_of_talks[part]))
        found = [
            *scorer.quality(
                [segment.hypothesis for segment in segments],
                [segment.reference for segment in segments],
            ),
            *_latencies(scorer, segments, repaired=repaired),
            *_documents(scorer, talks[part], references[part]),
            *scorer.streams(talks[part], with_speech=with_speech),
        ]
        return {score.name: score for score in found}

    single = [slice(place, place + 1) for place in range(len(talks))] if each_talk else []
    return LongFormScores(
        scores=scores(slice(None)),
        segments=list(chain.from_iterable(pieces_of_talks)),
        talks=[scores(part) for part in single],
    )


def timed_segments(
    talk: Instance,
    reference: Sequence[ReferenceSegment],
    *,
    language: Language,
    resegmenter: Resegmenter,
    rules: Rules,
    repaired: bool = False,
    alike: Callable[[str], str] = str,
) -> list[TimedSegment]:
    """Return the segments of a talk with the units assigned to them.

    Args:
        talk: Stream of the talk, prepared by ``prepare_instances``.
        reference: Reference segments of the talk, at least one.
        language: Target language.
        resegmenter: Assigns units to segments.
        rules: Counting rules.
        repaired: Whether elapsed times are corrected.
        alike: Form of units and references in which they are compared.
    """
    pieces = _assign(talk, reference, language, resegmenter, rules, alike)
    return list(_segments(talk, reference, pieces, rules=rules, repaired=repaired))


def _assign(
    talk: Instance,
    reference: Sequence[ReferenceSegment],
    language: Language,
    resegmenter: Resegmenter,
    rules: Rules,
    alike: Callable[[str], str],
) -> list[list[int]]:
    """Return the positions of the units of each segment; arguments as ``score_talks``."""
    if _is_finished(talk, reference):
        return [list(range(len(talk.units)))]
    units = [alike(unit) for unit in talk.units]
    texts = [alike(segment.text) for segment in reference]
    return resegmenter.assign(units, texts, language=language, rules=rules)


def _is_finished(talk: Instance, reference: Sequence[ReferenceSegment]) -> bool:
    """Return whether another tool has assigned the units to this segment, which stays as it is."""
    return talk.repaired and len(reference) == 1


def _segments(
    talk: Instance,
    reference: Sequence[ReferenceSegment],
    pieces: Sequence[Sequence[int]],
    *,
    rules: Rules,
    repaired: bool,
) -> Iterator[TimedSegment]:
    """Yield the segments of a talk with the times of their units.

    Args:
        talk: Stream of the talk.
        reference: Reference segments of the talk.
        pieces: Positions of the units of each segment.
        rules: Counting rules.
        repaired: Whether elapsed times are corrected.
    """
    end = talk.recording_end
    if end is None:
        end = max(segment.offset + segment.duration for segment in reference)
    has_no_spaces = rules.joined and talk.unit == "char"
    spaces = spacing(talk.units, "" if has_no_spaces else talk.text, talk.unit)
    long_elapsed = omnisteval_elapsed(talk.delays, talk.elapsed) if repaired else list(talk.elapsed)
    streams = _stream_times(talk, reference, pieces, rules=rules, repaired=repaired)

    relative = _unchanged if _is_finished(talk, reference) else relative_times
    for segment, piece, stream in zip(reference, pieces, streams, strict=True):
        delays = relative(segment.offset, [talk.delays[unit] for unit in piece])
        elapsed = (
            relative(segment.offset, [long_elapsed[unit] for unit in piece]) if long_elapsed else ()
        )
        yield TimedSegment(
            talk=talk.talk,
            offset=segment.offset,
            duration=segment.duration,
            reference=rules.reference(segment.text, talk.unit),
            hypothesis=join_units(talk.units, spaces, piece),
            delays=delays,
            elapsed=elapsed,
            stream_delays=stream[0],
            stream_elapsed=stream[1],
            stream_length=segment.duration * (MS if rules.milliseconds else 1.0),
            recording_end=relative(segment.offset, [end])[0],
        )


def relative_times(offset: Seconds, times: Sequence[Seconds]) -> tuple[Seconds, ...]:
    """Return times in seconds from ``offset``, subtracted in milliseconds as the tools do.

    A unit written exactly at the end of a segment must compare as equal to the end: in floating
    point 33.66 - 27.4 is not 6.26, but 33660 - 27400 is 6260.
    """
    start = offset * MS
    return tuple((round(time * MS, 6) - start) / MS for time in times)


def _unchanged(offset: Seconds, times: Sequence[Seconds]) -> tuple[Seconds, ...]:
    """Return the times of a finished segment, which count from its start."""
    return tuple(times)


def _stream_times(
    talk: Instance,
    reference: Sequence[ReferenceSegment],
    pieces: Sequence[Sequence[int]],
    *,
    rules: Rules,
    repaired: bool,
) -> Iterator[tuple[tuple[float, ...], tuple[float, ...]]]:
    """Yield the ideal and the computation-aware times of each segment for StreamLAAL.

    Args:
        talk: Stream of the talk.
        reference: Reference segments of the talk.
        pieces: Positions of the units of each segment.
        rules: Counting rules, which determine the unit of the times.
        repaired: Whether elapsed times are corrected.
    """
    seconds = _unchanged if _is_finished(talk, reference) else relative_times
    relative = _relative_milliseconds if rules.milliseconds else seconds
    least = 0.0 if rules.clamp else -inf
    corrected = _repaired_stream(talk, reference, pieces, rules) if repaired else {}
    for segment, piece in zip(reference, pieces, strict=True):
        delays = relative(segment.offset, [talk.delays[unit] for unit in piece])
        elapsed: Sequence[float] = ()
        if corrected:
            elapsed = [corrected[unit] for unit in piece]
        elif talk.elapsed:
            elapsed = relative(segment.offset, [talk.elapsed[unit] for unit in piece])
        yield (
            tuple(max(least, time) for time in delays),
            tuple(max(least, time) for time in elapsed),
        )


def _relative_milliseconds(offset: Seconds, times: Sequence[Seconds]) -> tuple[float, ...]:
    """Return times in milliseconds from ``offset``, with the floating-point errors of the tools."""
    return tuple(time - offset * MS for time in milliseconds(times))


def _repaired_stream(
    talk: Instance,
    reference: Sequence[ReferenceSegment],
    pieces: Sequence[Sequence[int]],
    rules: Rules,
) -> dict[int, float]:
    """Return the elapsed time that FBK computes for each unit, from the start of its segment.

    The times are milliseconds under rules that compare milliseconds, otherwise seconds.
    """
    if not talk.elapsed:
        return {}
    order = [
        (unit, segment.offset)
        for segment, piece in zip(reference, pieces, strict=True)
        for unit in piece
    ]
    delays = [talk.delays[unit] for unit, _ in order]
    elapsed = [talk.elapsed[unit] for unit, _ in order]
    offsets = [offset for _, offset in order]
    if rules.milliseconds:
        delays, elapsed = milliseconds(delays), milliseconds(elapsed)
        offsets = [offset * MS for offset in offsets]
    times = fbk_elapsed(delays, elapsed, offsets, clamp=rules.clamp)
    return {unit: time for (unit, _), time in zip(order, times, strict=True)}


def join_units(units: Sequence[str], spaces: Sequence[str], positions: Sequence[int]) -> str:
    """Join some units to a text.

    Args:
        units: All units.
        spaces: White space before each unit (:func:`spacing`).
        positions: Positions of the units to join.
    """
    return "".join(spaces[position] + units[position] for position in positions).strip()


def spacing(units: Sequence[str], text: str, unit: UnitKind) -> list[str]:
    """Return the white space before each unit.

    Words are separated by one space, characters only where ``text`` has white space.

    Args:
        units: Units of the text, in order.
        text: Text that the units were split from.
        unit: Kind of the units.
    """
    if unit == "word":
        return [" "] * len(units)

    spaces: list[str] = []
    position = 0
    for character in units:
        start = text.find(character, position)
        gap = text[position:start] if start >= 0 else ""
        spaces.append(" " if gap and gap.isspace() else "")
        position = start + len(character) if start >= 0 else position
    return spaces


def _latencies(
    scorer: Scorer, segments: Sequence[TimedSegment], *, repaired: bool
) -> Iterator[Score]:
    """Yield StreamLAAL and the Long metrics, ideal and computation-aware."""
    yield from _latencies_of(
        scorer,
        segments,
        suffix="",
        times=[segment.delays for segment in segments],
        stream_times=[segment.stream_delays for segment in segments],
    )
    if scorer.elapsed.available:
        yield from _latencies_of(
            scorer,
            segments,
            suffix="_CA",
            times=[segment.elapsed for segment in segments],
            stream_times=[segment.stream_elapsed for segment in segments],
            repaired=repaired,
        )


def _latencies_of(
    scorer: Scorer,
    segments: Sequence[TimedSegment],
    *,
    suffix: str,
    times: Sequence[tuple[Seconds, ...]],
    stream_times: Sequence[tuple[float, ...]],
    repaired: bool = False,
) -> Iterator[Score]:
    """Yield StreamLAAL and the Long metrics.

    Args:
        scorer: Computes the scores.
        segments: All segments.
        suffix: Appended to the names of the scores.
        times: Times of the units of each segment, for the Long metrics.
        stream_times: Times of the units of each segment, for StreamLAAL.
        repaired: Whether elapsed times were corrected; the signatures contain the correction.
    """
    unit = scorer.language.unit
    timings = [
        Timing(
            times=segment_times,
            source_length=segment.duration,
            reference_length=scorer.rules.length(segment.reference, unit),
            recording_end=segment.recording_end,
        )
        for segment, segment_times in zip(segments, times, strict=True)
    ]
    stream_timings = [
        replace(timing, times=segment_times, source_length=segment.stream_length)
        for timing, segment, segment_times in zip(timings, segments, stream_times, strict=True)
    ]

    clamp = {"clamp": scorer.rules.clamp}
    fbk = {"repair": "fbk"} if repaired else {}
    omnisteval = {"repair": "omnisteval"} if repaired else {}
    laal, yaal = LAAL(), YAAL(long_form=True)
    stream_laal = scorer.latency(f"StreamLAAL{suffix}", laal, stream_timings, **clamp, **fbk)
    if scorer.rules.milliseconds and stream_laal.value is not None:
        stream_laal = replace(stream_laal, value=stream_laal.value / MS)
    yield stream_laal
    yield scorer.latency(f"LongYAAL{suffix}", yaal, timings, **omnisteval)
    metrics = {f"Long{name}": metric() for name, metric in LONG_METRICS.items()}
    for name, metric in (metrics | scorer.extra_metrics(SegmentLatency)).items():
        yield scorer.latency(f"{name}{suffix}", metric, timings, **omnisteval)


def _documents(
    scorer: Scorer, talks: Sequence[Instance], references: Sequence[Sequence[ReferenceSegment]]
) -> list[Score]:
    """Compute DocBLEU: BLEU with each talk as one segment, independent of re-segmentation.

    Other BLEU metrics of the configuration have a score of this kind, too.
    """
    joined = [
        scorer.language.join(segment.text.strip() for segment in segments)
        for segments in references
    ]
    whole = replace(scorer, facts={}, extra=scorer.extra_metrics(BLEU))
    texts = [talk.text.strip() for talk in talks]
    return [
        score for score in whole.quality(texts, joined, prefix="Doc") if score.name != "DocchrF"
    ]
