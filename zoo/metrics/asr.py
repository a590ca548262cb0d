"""Quality of target speech as measured with a speech recogniser.

ASR-BLEU and ASR-chrF compare transcripts of the target speech with the references; word and
character error rates compare them with the written text. As in SimulU (section 3.2), texts are
normalised with Whisper's normaliser. (SimulEval's ``ASR_BLEU`` and ``WHISPER_ASR_BLEU`` transcribe
whole wav files with their gaps, and keep case and punctuation.)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from transformers.models.whisper.english_normalizer import (
    BasicTextNormalizer,
    EnglishTextNormalizer,
)

from zoo.base.disk.files import portable_name
from zoo.base.errors import ZooError
from zoo.base.languages import Language
from zoo.metrics.longform import join_units, spacing
from zoo.metrics.quality import ErrorRate
from zoo.metrics.resegmentation import MWER, Resegmenter
from zoo.metrics.rules import find_rules
from zoo.metrics.scores import ElapsedInfo, Scorer, value_of
from zoo.metrics.signature import Score, signature


@dataclass(frozen=True, slots=True)
class Normaliser:
    """Text normaliser of Whisper.

    Attributes:
        name: Name in signatures.
        clean: Converts a text to lower-case words without punctuation.
    """

    name: str
    clean: Callable[[str], str]

    @classmethod
    def of(cls, language: Language) -> "Normaliser":
        """Return the normaliser of a language.

        The English normaliser also expands contractions and writes numbers as digits. Its list of
        British spellings is part of Whisper's weights and not used.
        """
        if language.code == "en":
            return cls("whisper-english", EnglishTextNormalizer({}))
        return cls("whisper-basic", BasicTextNormalizer())

    def text(self, text: str) -> str:
        """Normalise a text and strip white space."""
        return self.clean(text).strip()

    def words(self, text: str, language: Language) -> list[str]:
        """Normalise a text and split it into words, or into letters in a language without spaces.

        Letters are grapheme clusters; Whisper's normaliser splits Chinese into them.
        """
        text = self.text(text)
        return text.split() if language.unit == "word" else split_letters(text)

    def characters(self, text: str, language: Language) -> list[str]:
        """Normalise a text and split it into characters.

        Spaces between words are characters, as in jiwer and torchmetrics.
        """
        text = self.text(text)
        return list(text) if language.unit == "word" else split_letters(text)


def split_letters(text: str) -> list[str]:
    """Split a text into grapheme clusters without white space."""
    return str(BasicTextNormalizer(split_letters=True)(text)).split()


def score_transcripts(
    transcripts: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    language: Language,
    recogniser: str,
    resegmenter: Resegmenter = MWER,
    rules: str = "zoo",
) -> dict[str, Score]:
    """Score transcripts of target speech against reference segments.

    Transcripts and references are normalised. A transcript is re-segmented like text if its stream
    has more than one reference segment.

    Args:
        transcripts: One transcript per stream.
        references: Reference segments of each stream.
        language: Target language.
        recogniser: Name of the recogniser, for signatures.
        resegmenter: Assigns units to segments.
        rules: Name of the counting rules (``zoo.metrics.rules``).

    Returns:
        ASR_BLEU, ASR_chrF and ASR_DocBLEU (each stream as one segment) by name.

    Raises:
        ZooError: Transcripts and references differ in number.
    """
    if len(transcripts) != len(references):
        raise ZooError(
            f"There are {len(transcripts)} transcripts but references for {len(references)} "
            f"streams."
        )
    normaliser = Normaliser.of(language)
    hypotheses = [normaliser.text(transcript) for transcript in transcripts]
    segments = [[normaliser.text(text) for text in stream] for stream in references]

    facts = asr_facts(recogniser, normaliser)
    no_times = ElapsedInfo(available=False, convention="", batched=False)
    documents = Scorer(language, find_rules(rules), no_times, facts)
    if any(len(stream) != 1 for stream in segments):
        facts = {**facts, "reseg": resegmenter.signature(documents.rules)}
    sentences = replace(documents, facts=facts)

    parts: list[str] = []
    for hypothesis, stream in zip(hypotheses, segments, strict=True):
        parts += _resegment_text(hypothesis, stream, resegmenter, documents)
    texts = [text for stream in segments for text in stream]
    joined = [language.join(filter(None, stream)) for stream in segments]
    scores = [
        *sentences.quality(parts, texts, prefix="ASR_"),
        *documents.quality(hypotheses, joined, prefix="ASR_Doc")[:1],  # BLEU, without chrF
    ]
    return {score.name: score for score in scores}


def _resegment_text(
    transcript: str, references: Sequence[str], resegmenter: Resegmenter, scorer: Scorer
) -> list[str]:
    """Split a transcript into the parts that belong to each reference segment."""
    if len(references) == 1:
        return [transcript]
    language = scorer.language
    units = language.units(transcript)
    spaces = spacing(units, transcript, language.unit)
    segments = resegmenter.assign(units, references, language=language, rules=scorer.rules)
    return [join_units(units, spaces, segment) for segment in segments]


def speech_errors(
    transcripts: Sequence[str],
    texts: Sequence[str],
    *,
    language: Language,
    recogniser: str,
) -> dict[str, Score]:
    """Compare transcripts of target speech with the text that the system wrote.

    Text without speech counts as deleted. The result includes the errors of the recogniser; see
    :func:`recogniser_errors`.

    Args:
        transcripts: One transcript per stream.
        texts: The written text of each stream.
        language: Target language.
        recogniser: Name of the recogniser, for signatures.

    Returns:
        SpeechWER and SpeechCER in percent by name.
    """
    scorer = _ErrorScorer(language, recogniser)
    return {
        "SpeechWER": scorer.score("SpeechWER", transcripts, texts, by_word=True),
        "SpeechCER": scorer.score("SpeechCER", transcripts, texts, by_word=False),
    }


def recogniser_errors(
    transcripts: Sequence[str], texts: Sequence[str], *, language: Language, recogniser: str
) -> dict[str, Score]:
    """Measure the errors of a recogniser on clean speech.

    Args:
        transcripts: Transcript of each text.
        texts: The spoken texts; a text without words is ignored.
        language: Target language.
        recogniser: Name of the recogniser, for the signature.

    Returns:
        ASR_WER in percent by name.
    """
    normaliser = Normaliser.of(language)
    pairs = [
        (transcript, text)
        for transcript, text in zip(transcripts, texts, strict=True)
        if normaliser.text(text)
    ]
    hypotheses, references = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    scorer = _ErrorScorer(language, recogniser)
    return {"ASR_WER": scorer.score("ASR_WER", hypotheses, references, by_word=True)}


@dataclass(frozen=True, slots=True)
class _ErrorScorer:
    """Computes error rates of normalised texts over all pairs.

    Attributes:
        language: Language of the texts.
        recogniser: Name of the recogniser, for signatures.
    """

    language: Language
    recogniser: str

    def score(
        self, name: str, hypotheses: Sequence[str], references: Sequence[str], *, by_word: bool
    ) -> Score:
        """Compute an error rate.

        Args:
            name: Name of the score.
            hypotheses: Transcripts.
            references: Text of each transcript.
            by_word: Whether to count words instead of characters.
        """
        normaliser = Normaliser.of(self.language)
        split = normaliser.words if by_word else normaliser.characters
        metric = ErrorRate()
        for hypothesis, reference in zip(hypotheses, references, strict=True):
            metric.update(split(hypothesis, self.language), split(reference, self.language))

        unit = self.language.unit if by_word else "char"
        facts = {"unit": unit, **asr_facts(self.recogniser, normaliser)}
        return Score(name, value_of(metric), signature(name, **facts))


def asr_facts(recogniser: str, normaliser: Normaliser) -> dict[str, str | None]:
    """Return the recogniser and the normaliser for signatures, which are equal on every machine."""
    return {"asr": portable_name(recogniser), "normalizer": normaliser.name}
