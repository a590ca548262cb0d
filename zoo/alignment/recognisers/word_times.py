"""Times of the words that a recogniser has found: of CTC models by frames, of Whisper by attention.

Other sequence-to-sequence models give none.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor
from transformers import Wav2Vec2CTCTokenizer

from zoo.alignment.times.tokens import word_tokens
from zoo.alignment.times.whisper_attention import (
    WhisperAttention,
    heads_of,
    opening_ids,
    timed_parts,
)
from zoo.backbones.ctc.best_path import frame_samples
from zoo.base.languages import Language
from zoo.base.languages import language as language_of
from zoo.base.talks import Word
from zoo.base.types import SAMPLE_RATE, Seconds

EAGER = "eager"  # the attention that returns its weights


class Timing(Protocol):
    """Finds the times of the words of transcripts."""

    def words(
        self, waves: Sequence[Tensor], texts: Sequence[str], paths: Sequence[Tensor] | None
    ) -> list[tuple[Word, ...] | None]:
        """Return the words of each transcript in seconds from the start of its waveform.

        Args:
            waves: (samples,) waveforms at 16 kHz.
            texts: transcript of each waveform.
            paths: (frames,) best path of each waveform; None: not of a CTC model.
        """


def timing_of(
    network: Any, extractor: Any, tokenizer: Any, *, name: str, code: str | None
) -> Timing | None:
    """Return what finds word times for a recogniser; None if it gives none.

    Args:
        network: the loaded network.
        extractor: its feature extractor.
        tokenizer: its tokenizer.
        name: hub id or folder, for error messages.
        code: code of the language of the transcripts; None: that of the model, which has words.
    """
    language = language_of(code or "en")
    if isinstance(tokenizer, Wav2Vec2CTCTokenizer):
        hop = frame_samples(network, extractor) / SAMPLE_RATE
        return FrameTiming(tokenizer, language, hop)
    if network.config.model_type != "whisper":
        return None
    config = network.generation_config
    if code is None and config.to_dict().get("lang_to_id"):
        return None  # the model detects the language, which is not known here
    opening = opening_ids(config, language.code, name)
    attention = WhisperAttention(network, extractor, heads_of(network, name), opening)
    return AttentionTiming(attention, tokenizer, language)


def shift(words: Iterable[Word], seconds: Seconds) -> Iterator[Word]:
    """Yield words that are ``seconds`` later."""
    for word in words:
        yield Word(word.text, word.start + seconds, word.end + seconds)


@dataclass(frozen=True, slots=True)
class FrameTiming:
    """Times from the best path of a CTC model.

    A word lasts from the first frame of its first letter to the last frame of its last letter. CTC
    models emit a letter at its end or later, often for one frame, so that ends are more exact than
    starts.

    Attributes:
        tokenizer: tokenizer of the labels.
        language: language of the transcripts.
        hop: seconds from one frame to the next.
    """

    tokenizer: Any
    language: Language
    hop: Seconds

    def words(
        self, waves: Sequence[Tensor], texts: Sequence[str], paths: Sequence[Tensor] | None
    ) -> list[tuple[Word, ...] | None]:
        """See ``Timing``."""
        assert paths is not None, "a CTC model has best paths"
        return [
            self._words(text, path, len(wave) / SAMPLE_RATE)
            for wave, text, path in zip(waves, texts, paths, strict=True)
        ]

    def _words(self, text: str, path: Tensor, longest: Seconds) -> tuple[Word, ...] | None:
        """Return the words of a transcript, none of which ends after ``longest`` seconds.

        None if the tokenizer writes other letters than its labels.
        """
        decoded = self.tokenizer.decode(path.tolist(), output_char_offsets=True)
        spans = [
            tuple(min(one[edge] * self.hop, longest) for edge in ("start_offset", "end_offset"))
            for one in decoded.char_offsets
            for letter in one["char"]
            if not letter.isspace()
        ]
        units = self.language.units(text)
        if sum(map(len, units)) != len(spans):
            return None
        words: list[Word] = []
        first = 0
        for unit in units:
            last = first + len(unit)
            words.append(Word(unit, spans[first][0], spans[last - 1][1]))
            first = last
        return tuple(words)


@dataclass(frozen=True, slots=True)
class AttentionTiming:
    """Times from the attention of a Whisper, whose own transcript is forced once more.

    Attributes:
        attention: the Whisper.
        tokenizer: its tokenizer.
        language: language of the transcripts.
    """

    attention: WhisperAttention
    tokenizer: Any
    language: Language

    def words(
        self, waves: Sequence[Tensor], texts: Sequence[str], paths: Sequence[Tensor] | None
    ) -> list[tuple[Word, ...] | None]:
        """See ``Timing``; a text with more tokens than the audio has frames has no times."""
        spoken = [index for index, text in enumerate(texts) if any(map(str.isalnum, text))]
        words: list[tuple[Word, ...] | None] = [() if not text else None for text in texts]
        if not spoken:
            return words

        tokens = {
            index: word_tokens(self.tokenizer, texts[index], self.language) for index in spoken
        }
        network = self.attention.network
        usual = network.config._attn_implementation
        network.set_attn_implementation(EAGER)
        try:
            weights, _ = self.attention.force(
                [waves[index] for index in spoken], [tokens[index].ids for index in spoken]
            )
        finally:
            network.set_attn_implementation(usual)
        for index, attended in zip(spoken, weights, strict=True):
            words[index] = timed_parts(tokens[index], attended, len(waves[index]))
        return words
