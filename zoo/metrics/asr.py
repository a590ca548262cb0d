"""How good target speech is to a speech recogniser: ASR-BLEU, ASR-chrF, word and character error rates.

SimulU, section 3.2: transcripts of the translated speech, Whisper's text normaliser, BLEU. (SimulEval's ``ASR_BLEU``
and ``WHISPER_ASR_BLEU`` transcribe its wav files, gaps included, and leave case and punctuation in.) Knows no network:
a recogniser is handed in.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from torch import Tensor
from transformers.models.whisper.english_normalizer import (
    BasicTextNormalizer,
    EnglishTextNormalizer,
)

from zoo.errors import ZooError
from zoo.languages import Language
from zoo.metrics.longform import cut, cut_name, glued, spacing
from zoo.metrics.quality import ErrorRate
from zoo.metrics.resegment import Resegmentation
from zoo.metrics.rules import find_rules
from zoo.metrics.scores import ElapsedInfo, Scorer, value_of
from zoo.metrics.signature import Score, signature
from zoo.metrics.speech_pieces import split_speech
from zoo.types import Instance


class Recogniser(Protocol):
    """What is asked of ``zoo/recognisers``. name: hub id or folder."""

    name: str

    def transcribe(self, waves: Sequence[Tensor]) -> list[str]:
        """What is said in each (n,) waveform at 16 kHz."""


def transcribe_speech(instance: Instance, recogniser: Recogniser, *, language: Language) -> str:
    """What ``recogniser`` understands of the speech of a stream, piece by piece (``zoo/metrics/speech_pieces.py``)."""
    said = split_speech(instance, language=language)
    return language.join(text for text in recogniser.transcribe(said) if text) if said else ""


@dataclass(frozen=True, slots=True)
class Normaliser:
    """Whisper's text normaliser. clean: text to lower-case words without punctuation. name: as in signatures."""

    name: str
    clean: Callable[[str], str]

    @classmethod
    def of(cls, language: Language) -> "Normaliser":
        """English has its own, which also spells contractions out and turns numbers into digits.

        Its list of British spellings comes with Whisper's weights, not with the package: it is not used.
        """
        if language.code == "en":
            return cls("whisper-english", EnglishTextNormalizer({}))
        return cls("whisper-basic", BasicTextNormalizer())

    def text(self, text: str) -> str:
        """Normalised, without white space around it."""
        return self.clean(text).strip()

    def words(self, text: str, language: Language) -> list[str]:
        """Normalised, in words; where there are none, in letters (grapheme clusters), as Whisper splits Chinese."""
        return (
            self.text(text).split() if language.unit == "word" else split_letters(self.text(text))
        )

    def characters(self, text: str, language: Language) -> list[str]:
        """Normalised, in characters; spaces between words are some, as in jiwer and torchmetrics."""
        return list(self.text(text)) if language.unit == "word" else split_letters(self.text(text))


def split_letters(text: str) -> list[str]:
    """Grapheme clusters without white space."""
    return str(BasicTextNormalizer(split_letters=True)(text)).split()


def score_transcripts(
    transcripts: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    language: Language,
    recogniser: str,
    resegmentation: Resegmentation = "mwer",
    rules: str = "zoo",
    sync: bool = False,
) -> dict[str, Score]:
    """ASR_BLEU and ASR_chrF of what was heard of each stream against its reference segments, and ASR_DocBLEU.

    Transcripts and references are normalised; then a transcript is re-segmented as text is, where a stream has more
    than one reference segment. ASR_DocBLEU: a whole stream as one segment. recogniser: its name, for signatures.
    Raises ZooError where the numbers of streams differ.
    """
    if len(transcripts) != len(references):
        raise ZooError(
            f"There are {len(transcripts)} transcripts but references for {len(references)} streams."
        )
    normaliser = Normaliser.of(language)
    heard = [normaliser.text(transcript) for transcript in transcripts]
    wanted = [[normaliser.text(segment) for segment in segments] for segments in references]
    facts = _facts(recogniser, normaliser)
    whole = Scorer(
        language, find_rules(rules), ElapsedInfo(False, "", False), facts, {"sync_on_compute": sync}
    )
    alone = all(len(segments) == 1 for segments in wanted)
    parted = replace(
        whole, facts=facts if alone else {**facts, "reseg": cut_name(resegmentation, whole.rules)}
    )
    parts: list[str] = []
    for text, segments in zip(heard, wanted, strict=True):
        parts += _cut(text, segments, resegmentation, whole)
    scores = [
        *parted.quality(
            parts, [segment for segments in wanted for segment in segments], prefix="ASR_"
        ),
        *whole.quality(
            heard, [language.join(filter(None, segments)) for segments in wanted], prefix="ASR_Doc"
        )[:1],
    ]
    return {score.name: score for score in scores}


def _cut(
    transcript: str, references: Sequence[str], resegmentation: Resegmentation, scorer: Scorer
) -> list[str]:
    """The part of a transcript that falls to each reference segment."""
    if len(references) == 1:
        return [transcript]
    language = scorer.language
    units = language.units(transcript)
    glue = spacing(units, transcript, language.unit)
    segments = cut(
        units, references, language=language, resegmentation=resegmentation, rules=scorer.rules
    )
    return [glued(units, glue, segment) for segment in segments]


def speech_errors(
    transcripts: Sequence[str],
    texts: Sequence[str],
    *,
    language: Language,
    recogniser: str,
    sync: bool = False,
) -> dict[str, Score]:
    """SpeechWER and SpeechCER in percent: what was heard of each stream against the text that it wrote.

    Text that was never spoken counts as deleted. The recogniser's own mistakes are in it: see ASR_WER.
    """
    scorer = _Errors(language, recogniser, sync)
    return {name: scorer.score(name, transcripts, texts) for name in ("SpeechWER", "SpeechCER")}


def recogniser_errors(
    transcripts: Sequence[str], texts: Sequence[str], *, language: Language, recogniser: str
) -> dict[str, Score]:
    """ASR_WER in percent: the recogniser's own error on clean speech of ``texts``; one without a word is left out."""
    normaliser = Normaliser.of(language)
    pairs = [pair for pair in zip(transcripts, texts, strict=True) if normaliser.text(pair[1])]
    columns = [heard for heard, _ in pairs], [text for _, text in pairs]
    return {"ASR_WER": _Errors(language, recogniser, False).score("ASR_WER", *columns)}


@dataclass(frozen=True, slots=True)
class _Errors:
    """Error rates of normalised texts, summed over all pairs."""

    language: Language
    recogniser: str
    sync: bool

    def score(self, name: str, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
        normaliser = Normaliser.of(self.language)
        words = name.endswith("WER")
        split = normaliser.words if words else normaliser.characters
        metric = ErrorRate(sync_on_compute=self.sync)
        for hypothesis, reference in zip(hypotheses, references, strict=True):
            metric.update(split(hypothesis, self.language), split(reference, self.language))
        facts = {
            "unit": self.language.unit if words else "char",
            **_facts(self.recogniser, normaliser),
        }
        return Score(name, value_of(metric), signature(name, **facts))


def _facts(recogniser: str, normaliser: Normaliser) -> dict[str, str | None]:
    """A folder goes by its last part: the signature is the same on every machine."""
    name = Path(recogniser).name if Path(recogniser).is_absolute() else recogniser
    return {"asr": name, "normalizer": normaliser.name}
