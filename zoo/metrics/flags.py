"""Says why a row of results must not be trusted. Knows no model; judges only what was written and when."""

from collections.abc import Mapping, Sequence

from zoo.metrics.rules import plain_length
from zoo.metrics.signature import Score
from zoo.types import Instance, Seconds, SpeechOutput, UnitKind

END_SHARE = 0.95  # of the source: what is written later is written at the end
LATE_SHARE = 0.9  # of all units
SHORT_SHARE, LONG_SHARE = 0.2, 2.0  # of the reference's length
EITHER_WAY = (
    "DiscontinuitySum",
    "DiscontinuityAve",
    "DiscontinuityNum",
    "SpeechOverlap",
)  # compute can lower them
LATE_CHUNKS = 2  # a stream of no more chunks has nowhere else to write
LOOP_SPAN = 30  # longest n-gram looked for: whole sentences
LOOP_TIMES = 6  # repetitions in a row that no text of ours has
LOOP_UNITS = 12  # and units they cover
TOLERANCE: Seconds = 1e-6
SPEECH_PACE: dict[UnitKind, tuple[Seconds, Seconds]] = {
    "word": (0.02, 0.25),
    "char": (0.06, 0.75),
}  # per character
SPEECH_PAUSE: Seconds = 1.0  # each stretch may be this much longer
SILENCE = 1e-3  # no sample of full scale 1 is louder
DEAF = 10.0  # percent: WER of a recogniser whose scores say little
END_EFFECT: Seconds = (
    0.1  # AL and LAAL stop at the first unit after the end: compute can take late units out of them
)


def flags(
    instances: Sequence[Instance], scores: Mapping[str, Score], *, speaking: bool = False
) -> list[str]:
    """One short sentence per finding; an empty list for a healthy row. speaking: there must be target speech too."""
    findings = [
        _empty(instances),
        _length(instances),
        _late(instances),
        _loops(instances),
        _impossible_times(instances),
        *(flag_speech(instances) if speaking else []),
        _deaf(scores),
        *_impossible_scores(scores),
    ]
    return [finding for finding in findings if finding]


def _empty(instances: Sequence[Instance]) -> str:
    silent = [instance.talk for instance in instances if not instance.units]
    return (
        f"writes nothing for {len(silent)} of {len(instances)} streams ({silent[0]})"
        if silent
        else ""
    )


def _length(instances: Sequence[Instance]) -> str:
    known = [instance for instance in instances if instance.reference]
    asked = sum(plain_length(instance.reference, instance.unit) for instance in known)
    written = sum(len(instance.units) for instance in known)
    healthy = SHORT_SHARE * asked <= written <= LONG_SHARE * asked
    return "" if healthy else f"writes {written} units where the references have {asked}"


def _late(instances: Sequence[Instance]) -> str:
    streams = [
        stream for stream in instances if not stream.chunks or len(stream.chunks) > LATE_CHUNKS
    ]
    units = sum(len(stream.units) for stream in streams)
    late = sum(
        delay >= END_SHARE * stream.source_length for stream in streams for delay in stream.delays
    )
    return (
        f"writes {100 * late / units:.0f} % of its {units} units at the end"
        if late > LATE_SHARE * units
        else ""
    )


def _loops(instances: Sequence[Instance]) -> str:
    for instance in instances:
        loop = longest_loop(instance.units)
        if loop:
            phrase, times = loop
            joined = ("" if instance.unit == "char" else " ").join(phrase)
            return f"repeats {joined!r} {times} times in a row ({instance.talk})"
    return ""


def longest_loop(units: Sequence[str]) -> tuple[tuple[str, ...], int] | None:
    """The phrase (1 to LOOP_SPAN units) said most often in a row, and how often; None if none is said too often.

    Counting is one pass per length: ``run`` is how many units in a row equal the one ``span`` before them.
    """
    best: tuple[tuple[str, ...], int] | None = None
    for span in range(1, LOOP_SPAN + 1):
        run = 0
        for position in range(span, len(units)):
            run = run + 1 if units[position] == units[position - span] else 0
            times = run // span + 1
            if (
                times >= LOOP_TIMES
                and times * span >= LOOP_UNITS
                and (best is None or times > best[1])
            ):
                best = (tuple(units[position - span + 1 : position + 1]), times)
    return best


def flag_speech(instances: Sequence[Instance]) -> list[str]:
    """What is wrong with target speech, as far as the text tells that it says: none of it, far too much or little."""
    return [finding for finding in (_mute(instances), _pace(instances)) if finding]


def _mute(instances: Sequence[Instance]) -> str:
    mute = [one.talk for one in instances if one.units and not any(map(_audible, one.speech))]
    return f"says nothing for {len(mute)} of {len(instances)} streams ({mute[0]})" if mute else ""


def _audible(spoken: SpeechOutput) -> bool:
    return bool(spoken.samples.abs().max() > SILENCE) if spoken.samples.numel() else False


def _pace(instances: Sequence[Instance]) -> str:
    """Speech that its text cannot take so long to say (a runaway), or not so short (most of it was not spoken)."""
    for instance in instances:
        seconds = sum(spoken.duration for spoken in instance.speech)
        characters = len("".join(instance.text.split()))
        shortest, longest = (pace * characters for pace in SPEECH_PACE[instance.unit])
        if instance.speech and not shortest <= seconds <= longest + SPEECH_PAUSE * len(
            instance.speech
        ):
            return f"speaks {seconds:.1f} s for a text of {characters} characters ({instance.talk})"
    return ""


def _deaf(scores: Mapping[str, Score]) -> str:
    error = scores["ASR_WER"].value if "ASR_WER" in scores else None
    clean = error is None or error <= DEAF
    return (
        ""
        if clean
        else f"the recogniser mishears clean speech ({error:.0f} % WER): ASR scores say little"
    )


def _impossible_times(instances: Sequence[Instance]) -> str:
    for instance in instances:
        if any(
            after < before
            for before, after in zip(instance.delays, instance.delays[1:], strict=False)
        ):
            return f"delays go backwards ({instance.talk})"
        if instance.elapsed and any(
            aware < ideal - TOLERANCE
            for aware, ideal in zip(instance.elapsed, instance.delays, strict=True)
        ):
            return f"writes before it has heard: elapsed below delay ({instance.talk})"
    return ""


def _impossible_scores(scores: Mapping[str, Score]) -> list[str]:
    findings: list[str] = []
    for name, score in scores.items():
        twin = scores.get(name.removesuffix("_CA"))
        if (
            name.endswith("_CA")
            and score.value is not None
            and twin is not None
            and twin.value is not None
        ):
            if twin.name not in EITHER_WAY and score.value < twin.value - END_EFFECT:
                findings.append(f"{name} {score.value:.3f} is below {twin.name} {twin.value:.3f}")
        elif name == "StreamLAAL" and score.value is not None and score.value < 0:
            findings.append(f"StreamLAAL {score.value:.3f} s is negative")
        elif name in ("StreamLAAL", "LAAL") and score.value is None:
            findings.append(f"{name} is not defined: no unit can be scored")
    return findings
