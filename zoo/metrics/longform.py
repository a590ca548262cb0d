"""Scores of whole talks: one hypothesis per talk, many reference segments (METRICS, Long-form). Knows no model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from zoo.errors import unknown_choice
from zoo.languages import Language
from zoo.metrics.elapsed import fbk_elapsed, omnisteval_elapsed
from zoo.metrics.latency import AL, AP, DAL, LAAL, MS, YAAL, SegmentLatency, Timing
from zoo.metrics.references import ReferenceSegment, check_talks
from zoo.metrics.resegment import Resegmentation, mwer_segment
from zoo.metrics.rules import Rules, find_rules
from zoo.metrics.scores import ElapsedInfo, Scorer, prepare_instances
from zoo.metrics.signature import Score, package_version
from zoo.metrics.soft import soft_segment
from zoo.types import Convention, Instance, Seconds, UnitKind

LONG_METRICS: dict[str, type[SegmentLatency]] = {"AL": AL, "LAAL": LAAL, "AP": AP, "DAL": DAL}


@dataclass(frozen=True, slots=True)
class ScoredSegment:
    """One reference segment and the words that fell to it.

    delays, elapsed: seconds from the segment's start, ideal and as LongYAAL_CA sees them; not clamped.
    stream_delays, stream_elapsed: the same as StreamLAAL and StreamLAAL_CA see them. elapsed times may be absent.
    """

    talk: str
    offset: Seconds
    duration: Seconds
    reference: str
    hypothesis: str
    delays: tuple[Seconds, ...]
    elapsed: tuple[Seconds, ...]
    stream_delays: tuple[Seconds, ...]
    stream_elapsed: tuple[Seconds, ...]
    recording_end: Seconds


@dataclass(frozen=True, slots=True)
class LongFormScores:
    """scores: by name, times in seconds. segments: in the order of the references, talk after talk."""

    scores: dict[str, Score]
    segments: list[ScoredSegment]


def score_talks(
    instances: Sequence[Instance],
    references: Sequence[Sequence[ReferenceSegment]],
    *,
    language: Language,
    resegmentation: Resegmentation = "mwer",
    convention: Convention = "queue",
    rules: str = "zoo",
    repair: bool = True,
    speaking: bool = False,
    sync: bool = False,
) -> LongFormScores:
    """Score talks against the segments of each (``references[i]`` belongs to ``instances[i]``).

    language: the target. convention: how elapsed times follow from chunk times; a recorded log without chunk times
    keeps its own. rules: whose counting (``zoo.metrics.rules``). repair: read cumulative elapsed times as FBK
    (StreamLAAL_CA) and OmniSTEval (Long..._CA) do, else as they are. speaking: StartOffset and EndOffset are those of
    the target speech, and its gaps and overlap are scored. sync: add up over ranks (then every rank calls, each with a
    talk in which something was written).
    Raises ZooError for a talk without reference, twice in the list, or with unequal numbers of units and times.
    """
    if resegmentation not in get_args(Resegmentation):
        raise unknown_choice("re-segmentation", resegmentation, get_args(Resegmentation))
    counting = find_rules(rules)
    check_talks(instances, references)
    talks = prepare_instances(instances, convention, counting)
    aware = ElapsedInfo.of(talks)
    repaired = repair and aware.convention == "cumulative"
    segments: list[ScoredSegment] = []
    for talk, reference in zip(talks, references, strict=True):
        texts = [segment.text for segment in reference]
        pieces = cut(
            talk.units, texts, language=language, resegmentation=resegmentation, rules=counting
        )
        segments.extend(_segments(talk, reference, pieces, rules=counting, repaired=repaired))
    facts: dict[str, str | None] = {"reseg": cut_name(resegmentation, counting)}
    scorer = Scorer(language, counting, aware, facts, {"sync_on_compute": sync})
    scores = [
        *scorer.quality([s.hypothesis for s in segments], [s.reference for s in segments]),
        *_latencies(scorer, segments, repaired=repaired),
        *_documents(scorer, talks, references),
        *scorer.streams(talks, speaking=speaking),
    ]
    return LongFormScores({score.name: score for score in scores}, segments)


def cut_name(resegmentation: Resegmentation, rules: Rules) -> str:
    """How a signature names the re-segmentation."""
    if resegmentation == "soft":
        return "soft"
    return f"mwer({package_version('mweralign')}, {'cased' if rules.cased else 'lower-cased'})"


def cut(
    units: Sequence[str],
    references: Sequence[str],
    *,
    language: Language,
    resegmentation: Resegmentation,
    rules: Rules,
) -> list[list[int]]:
    """Per reference segment the positions in ``units`` that belong to it, in order."""
    if resegmentation == "soft":
        return soft_segment(units, references, language=language)
    return [
        list(piece) for piece in mwer_segment(units, references, language=language, rules=rules)
    ]


def _segments(
    talk: Instance,
    reference: Sequence[ReferenceSegment],
    pieces: Sequence[Sequence[int]],
    *,
    rules: Rules,
    repaired: bool,
) -> Iterator[ScoredSegment]:
    end = max(segment.offset + segment.duration for segment in reference)
    glue = spacing(talk.units, talk.text, talk.unit)
    long_elapsed = omnisteval_elapsed(talk.delays, talk.elapsed) if repaired else list(talk.elapsed)
    stream_elapsed = (
        _repaired_stream(talk, reference, pieces) if repaired and talk.elapsed else None
    )
    for segment, piece in zip(reference, pieces, strict=True):
        delays = relative_times(segment.offset, [talk.delays[unit] for unit in piece])
        elapsed = (
            relative_times(segment.offset, [long_elapsed[unit] for unit in piece])
            if long_elapsed
            else ()
        )
        aware = tuple(stream_elapsed[unit] for unit in piece) if stream_elapsed else elapsed
        yield ScoredSegment(
            talk=talk.talk,
            offset=segment.offset,
            duration=segment.duration,
            reference=rules.reference(segment.text, talk.unit),
            hypothesis=glued(talk.units, glue, piece),
            delays=delays,
            elapsed=elapsed,
            stream_delays=_clamped(delays) if rules.clamp else delays,
            stream_elapsed=_clamped(aware) if rules.clamp else aware,
            recording_end=relative_times(segment.offset, [end])[0],
        )


def relative_times(offset: Seconds, times: Sequence[Seconds]) -> tuple[Seconds, ...]:
    """Seconds from ``offset``, subtracted in milliseconds as the tools do.

    A unit written exactly at a segment's end must compare as such: 33.66 - 27.4 is not 6.26, but
    33660 - 27400 is 6260.
    """
    start = offset * MS
    return tuple((round(time * MS, 6) - start) / MS for time in times)


def _clamped(times: Sequence[Seconds]) -> tuple[Seconds, ...]:
    return tuple(max(0.0, time) for time in times)


def _repaired_stream(
    talk: Instance, reference: Sequence[ReferenceSegment], pieces: Sequence[Sequence[int]]
) -> dict[int, Seconds]:
    """FBK's elapsed times by unit, seconds from the start of the unit's segment."""
    order = [
        (unit, segment.offset)
        for segment, piece in zip(reference, pieces, strict=True)
        for unit in piece
    ]
    times = fbk_elapsed(
        [talk.delays[unit] for unit, _ in order],
        [talk.elapsed[unit] for unit, _ in order],
        [offset for _, offset in order],
    )
    return {unit: time for (unit, _), time in zip(order, times, strict=True)}


def glued(units: Sequence[str], glue: Sequence[str], piece: Sequence[int]) -> str:
    """The text of some of the units, with the white space before each (:func:`spacing`)."""
    return "".join(glue[position] + units[position] for position in piece).strip()


def spacing(units: Sequence[str], text: str, unit: UnitKind) -> list[str]:
    """White space before each unit: always one space between words; between characters where the text has some."""
    if unit == "word":
        return [" "] * len(units)
    glue: list[str] = []
    position = 0
    for one in units:
        start = text.find(one, position)
        gap = text[position:start] if start >= 0 else ""
        glue.append(" " if gap and gap.isspace() else "")
        position = start + len(one) if start >= 0 else position
    return glue


def _latencies(
    scorer: Scorer, segments: Sequence[ScoredSegment], *, repaired: bool
) -> Iterator[Score]:
    timings = [
        Timing(
            segment.delays,
            segment.duration,
            scorer.rules.length(segment.reference, scorer.language.unit),
            segment.recording_end,
        )
        for segment in segments
    ]
    streams = [replace(t, times=s.stream_delays) for t, s in zip(timings, segments, strict=True)]
    clamp = {"clamp": scorer.rules.clamp}
    yield scorer.latency("StreamLAAL", LAAL(**scorer.options), streams, **clamp)
    yield scorer.latency("LongYAAL", YAAL(long_form=True, **scorer.options), timings)
    for name, metric in LONG_METRICS.items():
        yield scorer.latency(f"Long{name}", metric(**scorer.options), timings)
    if not scorer.aware.available:
        return
    streams = [replace(t, times=s.stream_elapsed) for t, s in zip(timings, segments, strict=True)]
    timings = [replace(t, times=s.elapsed) for t, s in zip(timings, segments, strict=True)]
    fbk, omnisteval = ({"repair": name} if repaired else {} for name in ("fbk", "omnisteval"))
    yield scorer.latency("StreamLAAL_CA", LAAL(**scorer.options), streams, **clamp, **fbk)
    yield scorer.latency(
        "LongYAAL_CA", YAAL(long_form=True, **scorer.options), timings, **omnisteval
    )
    for name, metric in LONG_METRICS.items():
        yield scorer.latency(f"Long{name}_CA", metric(**scorer.options), timings, **omnisteval)


def _documents(
    scorer: Scorer, talks: Sequence[Instance], references: Sequence[Sequence[ReferenceSegment]]
) -> list[Score]:
    """BLEU with a whole talk as one segment: no re-segmentation can move it."""
    joined = [
        scorer.language.join(segment.text.strip() for segment in segments)
        for segments in references
    ]
    return replace(scorer, facts={}).quality(
        [talk.text.strip() for talk in talks], joined, prefix="Doc"
    )[:1]
