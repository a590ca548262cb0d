"""Long-form latency of target speech, from the words that a recogniser finds in it.

Xue et al. (2026), "A Practical Evaluation Method for Long-Form Simultaneous Speech-to-Speech
Translation" (arXiv:2606.15059): the target speech of a whole talk is recognised with the times of
its words, the words are assigned to the source sentences, and each sentence has a latency (YAAL)
and a quality (XCOMET). Sentences show what offsets of whole streams do not: latency that grows over
a talk.

What differs here, or is open in what could be read of the paper:

- The time of a word is when its playback *ends*: only then has a listener heard it. The playback
  begins as in ``zoo/streaming/playback.py``.
- Words are assigned to the reference segments by ``evaluation.resegmentation``, like text, after
  Whisper's normaliser has removed case and punctuation. The paper aligns embeddings of sentences
  (SEGALE); ``meaning`` aligns those of words.
- ``SpeechLongYAAL`` is ``LongYAAL`` of these words: words that end after the recording do not
  count.
- ``SpeechDrift``: the lag of a segment is the end of the playback of its last word minus the end of
  its source. The drift of a talk is the mean lag of the segments that end in its last minute minus
  that of those that end in its first minute; of a talk below two minutes, in its second and in its
  first half. It has no limit at the end of the recording.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from zoo.alignment.recognisers.base import Recogniser, TimedRecogniser
from zoo.base.languages import Language
from zoo.base.types import Convention, Instance, Seconds
from zoo.metrics.asr import Normaliser, asr_facts
from zoo.metrics.drift import DRIFT_WINDOW, drift, segment_lags
from zoo.metrics.latency import WeightedMean
from zoo.metrics.longform import TimedSegment, score_talks
from zoo.metrics.references import ReferenceSegment
from zoo.metrics.resegmentation import MWER, Resegmenter
from zoo.metrics.rules import find_rules
from zoo.metrics.scores import value_of
from zoo.metrics.signature import Score, signature
from zoo.metrics.speech_pieces import SpeechPiece, split_speech
from zoo.streaming.elapsed import with_convention
from zoo.streaming.playback import playback_intervals

LATENCIES = ("LongYAAL", "LongYAAL_CA")


@dataclass(frozen=True, slots=True)
class SpokenWord:
    """A recognised word of target speech.

    Attributes:
        text: The word, or a character in a language without spaces.
        output: Position of the output in whose playback it ends.
        seconds: When it ends, from the start of this output.
    """

    text: str
    output: int
    seconds: Seconds


@dataclass(frozen=True, slots=True)
class SpokenText:
    """What a recogniser has found in the target speech of a stream.

    Attributes:
        text: Transcript.
        words: Words of the transcript; None: the recogniser gives no times.
    """

    text: str
    words: tuple[SpokenWord, ...] | None


def recognise_speech(
    instance: Instance, recogniser: Recogniser, *, language: Language
) -> SpokenText:
    """Transcribe the target speech of a stream piece by piece (``zoo/metrics/speech_pieces.py``).

    Args:
        instance: Stream with target speech.
        recogniser: Recogniser of the target language.
        language: Target language.
    """
    pieces = split_speech(instance, language=language)
    if not pieces:
        return SpokenText("", ())
    waves = [piece.samples for piece in pieces]
    if not isinstance(recogniser, TimedRecogniser):
        texts = recogniser.transcribe(waves)
        return SpokenText(language.join(text for text in texts if text), None)

    found = recogniser.recognise(waves)
    text = language.join(one.text for one in found if one.text)
    words: list[SpokenWord] = []
    for piece, one in zip(pieces, found, strict=True):
        if one.words is None:
            return SpokenText(text, None)
        words += [_placed(word.text, word.end, piece) for word in one.words]
    return SpokenText(text, tuple(words))


def _placed(text: str, end: Seconds, piece: SpeechPiece) -> SpokenWord:
    """Return the word that ends ``end`` seconds after the start of a piece."""
    return SpokenWord(text, *piece.locate_end(end))


def as_text(instance: Instance, spoken: SpokenText) -> Instance:
    """Return the stream whose units are the recognised words, written when their playback ends.

    Args:
        instance: Stream with target speech, with its elapsed times under the wanted convention.
        spoken: What was recognised; with words.
    """
    assert spoken.words is not None, "these words have no times"
    ends = {
        aware: [
            start + min(word.seconds, duration)
            for word, (start, duration) in _with_interval(instance, spoken.words, aware=aware)
        ]
        for aware in (False, True)
    }
    return replace(
        instance,
        text=spoken.text,
        units=tuple(word.text for word in spoken.words),
        delays=tuple(ends[False]),
        elapsed=tuple(ends[True]) if instance.elapsed else (),
        chunk_indices=(),
        chunks=(),
        speech=(),
        events=(),
    )


def _with_interval(
    instance: Instance, words: Sequence[SpokenWord], *, aware: bool
) -> list[tuple[SpokenWord, tuple[Seconds, Seconds]]]:
    """Return each word with (start, duration) of the playback of its output."""
    intervals = playback_intervals(instance.speech, computation_aware=aware)
    return [(word, intervals[word.output]) for word in words]


@dataclass(frozen=True, slots=True)
class SpokenScores:
    """Latency of recognised words.

    Attributes:
        scores: SpeechLongYAAL and SpeechDrift by name, also computation-aware.
        segments: Reference segments of all streams with their recognised words.
    """

    scores: dict[str, Score]
    segments: list[TimedSegment]


def score_spoken_words(
    instances: Sequence[Instance],
    spoken: Sequence[SpokenText],
    references: Sequence[Sequence[ReferenceSegment]],
    *,
    language: Language,
    recogniser: str,
    resegmenter: Resegmenter = MWER,
    convention: Convention = "queue",
    rules: str = "zoo",
) -> SpokenScores:
    """Score the times of recognised words against reference segments.

    Args:
        instances: Streams with target speech.
        spoken: What was recognised in each stream; with words.
        references: Reference segments of each stream.
        language: Target language.
        recogniser: Name of the recogniser, for signatures.
        resegmenter: Assigns words to segments.
        convention: Elapsed convention; a recorded log without chunk times keeps its convention.
        rules: Name of the counting rules (``zoo.metrics.rules``).
    """
    normaliser = Normaliser.of(language)
    streams = [
        as_text(with_convention(instance, convention), one)
        for instance, one in zip(instances, spoken, strict=True)
    ]
    found = score_talks(
        streams,
        references,
        language=language,
        resegmenter=resegmenter,
        convention=convention,
        rules=rules,
        repair=False,  # the times are of the playback, not of chunks
        alike=lambda text: normaliser.text(text) or text,
    )
    facts = asr_facts(recogniser, normaliser)
    scores = [_of_speech(found.scores[name], facts) for name in LATENCIES if name in found.scores]

    facts = {"reseg": resegmenter.signature(find_rules(rules)), **facts}
    segments = iter(found.segments)
    of_streams = [[next(segments) for _ in stream] for stream in references]
    for is_aware in [False, True] if LATENCIES[1] in found.scores else [False]:
        metric = WeightedMean()
        for stream, own in zip(streams, of_streams, strict=True):
            metric.add(drift(segment_lags(own, aware=is_aware), stream.source_length))
        name = "SpeechDrift_CA" if is_aware else "SpeechDrift"
        elapsed = streams[0].convention if is_aware else None
        window = f"{DRIFT_WINDOW:g} s"
        signed = signature(name, window=window, **facts, elapsed=elapsed)
        scores.append(Score(name, value_of(metric), signed))
    return SpokenScores({score.name: score for score in scores}, found.segments)


def _of_speech(score: Score, facts: dict[str, str | None]) -> Score:
    """Return a score of text as a score of target speech, which a recogniser has transcribed."""
    name = f"Speech{score.name}"
    head, _, version = score.signature.rpartition("|")
    own = "|".join(f"{key}:{value}" for key, value in facts.items())
    return Score(name, score.value, f"Speech{head}|{own}|{version}")
