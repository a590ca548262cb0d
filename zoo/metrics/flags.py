"""Flags: reasons why a row of results must not be trusted."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Protocol
from unicodedata import is_normalized, normalize

from zoo.base.types import Instance, Seconds, SpeechOutput, UnitKind
from zoo.metrics.degeneracy import DEGENERATE
from zoo.metrics.references import ReferenceSegment
from zoo.metrics.rules import plain_length
from zoo.metrics.signature import Score

END_SHARE = 0.95  # share of the source; output after it counts as written at the end
LATE_SHARE = 0.9  # maximum share of the units that may be written at the end
LATE_CHUNKS = 2  # a stream of at most this many chunks can only write at the end
# Minimum and maximum number of units, relative to the references.
SHORT_SHARE, LONG_SHARE = 0.2, 2.0
LOOP_SPAN = 30  # number of units of the longest repeated phrase that is detected
LOOP_TIMES = 6  # minimum number of repetitions in a row; no text of the corpora contains as many
LOOP_UNITS = 12  # minimum number of units that the repetitions cover
TOLERANCE: Seconds = 1e-6  # rounding error of elapsed times
FAST = 30.0  # units per second of source; nobody speaks as fast
CUT: Seconds = 0.5  # a stream that ends earlier before its last segment is cut; corpora round times
# A tool may pad its last chunk, so that a delay is after the end of the source by up to this much,
# and by up to this share of the source.
PADDING: Seconds = 2.0
PADDING_SHARE = 0.1
SILENT_END: Seconds = 30.0  # of segments after the last output
FORM_SHARE = 1e-3  # least share of the reference units that only differ in their Unicode form

MISSING_UNITS = 5  # number of units from which on a sentence without translation is reported

# Seconds of speech per character of text: shortest and longest plausible value.
SPEECH_PACE: dict[UnitKind, tuple[Seconds, Seconds]] = {
    "word": (0.02, 0.25),
    "char": (0.06, 0.75),
}
SPEECH_PAUSE: Seconds = 1.0  # additional duration allowed per output
SILENCE = 1e-3  # largest sample magnitude of a silent waveform (full scale is 1)
# Maximum word error rate in percent; above it, ASR-based scores measure the recogniser.
MAX_ASR_WER = 10.0

# AL and LAAL end at the first unit after the end of the source, so compute can remove late units
# from their mean and make the computation-aware value smaller by up to this much.
END_EFFECT: Seconds = 0.1
# Compute time can lower these scores as well as raise them. YAAL leaves out units after the end of
# the recording, and these are the latest ones.
NOT_MONOTONIC = (
    "YAAL",
    "LongYAAL",
    "DiscontinuitySum",
    "DiscontinuityAve",
    "DiscontinuityNum",
    "SpeechOverlap",
)


class TranslatedSegment(Protocol):
    """A reference segment and its translation, such as ``longform.TimedSegment``."""

    @property
    def talk(self) -> str:
        """Name of the talk."""

    @property
    def offset(self) -> Seconds:
        """Start of the segment in seconds from the start of the talk."""

    @property
    def reference(self) -> str:
        """Reference translation."""

    @property
    def hypothesis(self) -> str:
        """Text that was assigned to the segment."""


def flags(
    instances: Sequence[Instance],
    scores: Mapping[str, Score],
    *,
    references: Sequence[Sequence[ReferenceSegment]] = (),
    segments: Sequence[TranslatedSegment] = (),
    with_speech: bool = False,
) -> list[str]:
    """Check a row of results.

    Args:
        instances: Streams of the row.
        scores: Scores of the row by name.
        references: Reference segments of each stream; empty without references.
        segments: Reference segments of long talks, in order, talk after talk.
        with_speech: Whether the system must also emit target speech.

    Returns:
        One short sentence per problem; empty if there is none.
    """
    findings = [
        _flag_empty(instances),
        _flag_length(instances),
        _flag_missing(segments, instances[0].unit if instances else "word"),
        _flag_late(instances),
        _flag_no_output(instances),
        _flag_fast(instances),
        _flag_loops(instances),
        _flag_times(instances),
        _flag_after_end(instances),
        _flag_cut(instances, references),
        _flag_end(instances, references),
        _flag_blank(references),
        _flag_forms(instances, references),
        *(flag_speech(instances) if with_speech else []),
        _flag_recogniser(scores),
        _flag_degenerate(scores),
        *_flag_scores(scores),
    ]
    return [finding for finding in findings if finding]


# Each of the following functions returns one finding, or an empty string.


def _flag_empty(instances: Sequence[Instance]) -> str:
    empty = [instance.talk for instance in instances if not instance.units]
    if not empty:
        return ""
    return f"writes nothing for {len(empty)} of {len(instances)} streams ({empty[0]})"


def _flag_length(instances: Sequence[Instance]) -> str:
    with_reference = [instance for instance in instances if instance.reference]
    expected = sum(plain_length(instance.reference, instance.unit) for instance in with_reference)
    num_units = sum(len(instance.units) for instance in with_reference)
    if SHORT_SHARE * expected <= num_units <= LONG_SHARE * expected:
        return ""
    return f"writes {num_units} units where the references have {expected}"


def _flag_missing(segments: Sequence[TranslatedSegment], unit: UnitKind) -> str:
    """Flag sentences without a translation.

    A re-segmentation may assign a translation to the sentence before or after. So a sentence is
    missing if it has next to no units, and its neighbours have not the units that it lacks.
    """
    missing = []
    for index, segment in enumerate(segments):
        expected, num_units = _lengths(segment, unit)
        if expected < MISSING_UNITS or num_units >= SHORT_SHARE * expected:
            continue
        near = [one for one in segments[max(index - 1, 0) : index + 2] if one.talk == segment.talk]
        lengths = [_lengths(one, unit) for one in near]
        if sum(wanted - written for wanted, written in lengths) >= expected / 2:
            missing.append(segment)
    if not missing:
        return ""
    first = missing[0]
    return (
        f"writes no translation for {len(missing)} of {len(segments)} segments "
        f"({first.talk} at {first.offset:.1f} s)"
    )


def _lengths(segment: TranslatedSegment, unit: UnitKind) -> tuple[int, int]:
    """Return the number of units of the reference and of the translation of a segment."""
    return plain_length(segment.reference, unit), plain_length(segment.hypothesis, unit)


def _flag_late(instances: Sequence[Instance]) -> str:
    streams = [
        stream for stream in instances if not stream.chunks or len(stream.chunks) > LATE_CHUNKS
    ]
    units = sum(len(stream.units) for stream in streams)
    late = sum(
        delay >= END_SHARE * stream.source_length for stream in streams for delay in stream.delays
    )
    if late <= LATE_SHARE * units:
        return ""
    return f"writes {100 * late / units:.0f} % of its {units} units at the end"


def _flag_no_output(instances: Sequence[Instance]) -> str:
    """Flag stretches of speech without output, which a history with a speech detector finds."""
    silent = [
        (one.talk, event) for one in instances for event in one.events if event.kind == "no_output"
    ]
    if not silent:
        return ""
    talk, first = silent[0]
    place = f"{talk}, before {first.at:.1f} s"
    return f"emits nothing during {first.reason}, {len(silent)} times ({place})"


def _flag_fast(instances: Sequence[Instance]) -> str:
    for instance in instances:
        if len(instance.units) > FAST * max(1.0, instance.source_length):
            return (
                f"writes {len(instance.units)} units for {instance.source_length:.2f} s of source "
                f"({instance.talk})"
            )
    return ""


def _flag_loops(instances: Sequence[Instance]) -> str:
    for instance in instances:
        if loop := longest_loop(instance.units):
            phrase, times = loop
            text = ("" if instance.unit == "char" else " ").join(phrase)
            return f"repeats {text!r} {times} times in a row ({instance.talk})"
    return ""


def longest_loop(units: Sequence[str]) -> tuple[tuple[str, ...], int] | None:
    """Find the phrase with the most consecutive repetitions.

    Each phrase length takes one pass: ``run`` counts the consecutive units that equal the unit
    ``span`` positions before.

    Args:
        units: Words or characters of a text.

    Returns:
        The phrase (1 to LOOP_SPAN units) and its number of occurrences in a row. None if no phrase
        occurs LOOP_TIMES times in a row.
    """
    best: tuple[tuple[str, ...], int] | None = None
    for span in range(1, LOOP_SPAN + 1):
        run = 0
        for position in range(span, len(units)):
            run = run + 1 if units[position] == units[position - span] else 0
            times = run // span + 1
            is_loop = times >= LOOP_TIMES and times * span >= LOOP_UNITS
            if is_loop and (best is None or times > best[1]):
                best = (tuple(units[position - span + 1 : position + 1]), times)
    return best


def flag_speech(instances: Sequence[Instance]) -> list[str]:
    """Check that target speech exists, is complete, and has a plausible duration for its text.

    Returns:
        One short sentence per problem.
    """
    findings = (_flag_silence(instances), _flag_unit_limit(instances), _flag_pace(instances))
    return [finding for finding in findings if finding]


def _flag_silence(instances: Sequence[Instance]) -> str:
    silent = [
        instance.talk
        for instance in instances
        if instance.units and not any(map(_is_audible, instance.speech))
    ]
    if not silent:
        return ""
    return f"has no audible speech for {len(silent)} of {len(instances)} streams ({silent[0]})"


def _is_audible(output: SpeechOutput) -> bool:
    if not output.samples.numel():
        return False
    return bool(output.samples.abs().max() > SILENCE)


def _flag_unit_limit(instances: Sequence[Instance]) -> str:
    counts = [sum(event.kind == "unit_limit" for event in one.events) for one in instances]
    limited = [one.talk for one, count in zip(instances, counts, strict=True) if count]
    if not limited:
        return ""
    return (
        f"units stopped at the maximum length in {sum(counts)} emissions of {len(limited)} of "
        f"{len(instances)} streams ({limited[0]})"
    )


def _flag_pace(instances: Sequence[Instance]) -> str:
    """Flag speech that is too long for its text (it never ends) or too short (text is missing)."""
    for instance in instances:
        seconds = sum(output.duration for output in instance.speech)
        characters = len("".join(instance.text.split()))
        shortest, longest = (pace * characters for pace in SPEECH_PACE[instance.unit])
        longest += SPEECH_PAUSE * len(instance.speech)
        if instance.speech and not shortest <= seconds <= longest:
            return (
                f"has {seconds:.1f} s of speech for a text of {characters} characters "
                f"({instance.talk})"
            )
    return ""


def _flag_recogniser(scores: Mapping[str, Score]) -> str:
    error = scores["ASR_WER"].value if "ASR_WER" in scores else None
    if error is None or error <= MAX_ASR_WER:
        return ""
    return (
        f"the recogniser makes {error:.0f} % word errors on clean speech: ASR scores are unreliable"
    )


def _flag_degenerate(scores: Mapping[str, Score]) -> str:
    value = scores["DSPTV"].value if "DSPTV" in scores else None
    if value is None or abs(value) <= DEGENERATE:
        return ""
    return (
        f"may have a degenerate policy: the share of units before the end of the source differs by "
        f"{abs(value):.0f} points (DSPTV) from that of even writing at its latency"
    )


def _flag_times(instances: Sequence[Instance]) -> str:
    for instance in instances:
        if any(after < before for before, after in pairwise(instance.delays)):
            return f"delays decrease ({instance.talk})"
        if instance.elapsed and any(
            elapsed < delay - TOLERANCE
            for elapsed, delay in zip(instance.elapsed, instance.delays, strict=True)
        ):
            return (
                f"writes before it has received the source: elapsed below delay ({instance.talk})"
            )
    return ""


def _flag_after_end(instances: Sequence[Instance]) -> str:
    for instance in instances:
        length, latest = instance.source_length, max(instance.delays, default=0.0)
        if latest > length + min(PADDING, PADDING_SHARE * length):
            return f"delays of {latest:.2f} s after the end of {length:.2f} s ({instance.talk})"
    return ""


def _flag_cut(
    instances: Sequence[Instance], references: Sequence[Sequence[ReferenceSegment]]
) -> str:
    """Flag streams that did not receive the whole recording or all its segments."""
    cut: list[str] = []
    for place, instance in enumerate(instances):
        received = instance.chunks[-1].arrival if instance.chunks else instance.source_length
        segments = references[place] if references else ()
        end = max([instance.source_length, *(one.offset + one.duration for one in segments)])
        if received < end - CUT:
            cut.append(f"{instance.talk}, after {received:.1f} of {end:.1f} s")
    if not cut:
        return ""
    return f"stops before the end of {len(cut)} of {len(instances)} streams ({cut[0]})"


def _flag_end(
    instances: Sequence[Instance], references: Sequence[Sequence[ReferenceSegment]]
) -> str:
    """Flag streams whose output ends long before the recording, as after a crash."""
    silent: list[tuple[str, int]] = []
    for instance, segments in zip(instances, references, strict=False):
        last = max(instance.delays, default=inf)  # a stream without output has a flag of its own
        rest = [one for one in segments if one.offset > last and one.text.strip()]
        if sum(one.duration for one in rest) > SILENT_END:
            silent.append((instance.talk, len(rest)))
    if not silent:
        return ""
    talk, number = silent[0]
    return (
        f"writes nothing for the last {number} segments of {len(silent)} of {len(instances)} "
        f"streams ({talk})"
    )


def _flag_blank(references: Sequence[Sequence[ReferenceSegment]]) -> str:
    """Flag sentences without reference; whole talks may have segments without translation."""
    blank = sum(not any(one.text.strip() for one in segments) for segments in references)
    if not blank:
        return ""
    return f"{blank} of {len(references)} streams have a blank reference"


def _flag_forms(
    instances: Sequence[Instance], references: Sequence[Sequence[ReferenceSegment]]
) -> str:
    """Flag units that equal those of the references only in the composed form of Unicode (NFC).

    BLEU compares code points, so that an umlaut of one code point differs from one of two.
    """
    texts = [one.text for segments in references for one in segments]
    output = [instance.text for instance in instances]
    if not references or all(is_normalized("NFC", text) for text in (*texts, *output)):
        return ""
    unit = instances[0].unit

    def count_shared(references: Sequence[str], output: Sequence[str]) -> int:
        return (_count_units(references, unit) & _count_units(output, unit)).total()

    composed = [[normalize("NFC", text) for text in group] for group in (texts, output)]
    gained = count_shared(*composed) - count_shared(texts, output)
    total = _count_units(texts, unit).total()
    if gained <= FORM_SHARE * total:
        return ""
    return (
        f"{gained} of {total} units of the references differ from the output only in their Unicode "
        "form (NFD and NFC); normalise both to NFC"
    )


def _count_units(texts: Sequence[str], unit: UnitKind) -> Counter[str]:
    """Return how often each word or character occurs."""
    words = [word for text in texts for word in text.split()]
    return Counter(words if unit == "word" else "".join(words))


def _flag_scores(scores: Mapping[str, Score]) -> list[str]:
    findings: list[str] = []
    for name, score in scores.items():
        if name.endswith("_CA"):
            ideal = scores.get(name.removesuffix("_CA"))
            if score.value is None or ideal is None or ideal.value is None:
                continue
            if ideal.name not in NOT_MONOTONIC and score.value < ideal.value - END_EFFECT:
                findings.append(f"{name} {score.value:.3f} is below {ideal.name} {ideal.value:.3f}")
        elif name == "StreamLAAL" and score.value is not None and score.value < 0:
            findings.append(f"StreamLAAL {score.value:.3f} s is negative")
        elif name in ("StreamLAAL", "LAAL") and score.value is None:
            findings.append(f"{name} is not defined: no unit can be scored")
    return findings
