"""Word times by the cross-attention of Whisper (Radford et al., 2023), in all its languages.

The transcript is forced, so its words are those of the corpus.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from transformers import (
    GenerationConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
    WhisperTokenizer,
)

from zoo.alignment.times.base import TimedWords
from zoo.alignment.times.tokens import Tokens, word_tokens
from zoo.alignment.times.whisper_attention import (
    WhisperAttention,
    frames_of,
    heads_of,
    opening_ids,
    timed_parts,
)
from zoo.backbones.base import dtype_named
from zoo.backbones.pretrained import hub
from zoo.backbones.pretrained.loading import (
    check_extractor,
    load_network,
    load_part,
    model_type,
)
from zoo.base.audio import files as audio
from zoo.base.errors import ZooError, check_numbers
from zoo.base.languages import language as language_of
from zoo.base.talks import Segment, Talk, Word
from zoo.base.types import Seconds
from zoo.data.word_times import transcript_words

NOUN = "Whisper"
LONGEST: Seconds = 30  # length of the encoder's input


class WhisperTimes:
    """An aligner that finds the best monotonic path through Whisper's attention to the audio.

    The weights of a token are those of the position that predicts it, averaged over the alignment
    heads (``zoo.alignment.times.whisper_attention``).

    Each token has 20 ms or more. A word lasts until the first token of the next one begins, so a
    word before a pause may last into the pause. A segment with more tokens than frames or than the
    decoder has positions has no times.

    Args:
        name: hub id or folder of a Whisper.
        language: code of the language of the transcripts.
        max_seconds: maximum duration of a segment; longer ones are not aligned.
        batch_size: number of segments that are aligned at once.
        dtype: dtype of the network, by its name in torch.

    Raises:
        ZooError: an argument is outside its range, or ``language`` or ``dtype`` is unknown.
    """

    def __init__(
        self,
        *,
        name: str | None,
        language: str,
        max_seconds: Seconds = LONGEST,
        batch_size: int = 8,
        dtype: str = "float32",
    ) -> None:
        check_numbers("Word times by Whisper", least=1, batch_size=batch_size)
        check_numbers("Word times by Whisper", above=0, most=LONGEST, max_seconds=max_seconds)
        self.name = name
        self.language = language_of(language)
        self.max_seconds = max_seconds
        self.batch_size = batch_size
        self.dtype = dtype_named(dtype)
        self._network: Any = None

    def check(self) -> None:
        """See ``WordTimer``; reads only the configuration of the model."""
        self._opening(self._checked_name())

    def _checked_name(self) -> str:
        """Return the name of the model. Raises ZooError if it is missing or no Whisper."""
        name = hub.required(NOUN, self.name, user="Word times by Whisper")
        model_type(name, accepted=("whisper",), noun=NOUN)
        return name

    def _opening(self, name: str) -> list[int]:
        """Return the ids before a transcript. Raises ZooError if the model lacks the language."""
        config = load_part("generation config", GenerationConfig.from_pretrained, name)
        fields = config.to_dict()
        languages = fields.get("lang_to_id") or {}  # none in a model of English alone
        token = f"<|{self.language.code}|>"
        if token not in (languages or ["<|en|>"]):
            codes = ", ".join(sorted(code.strip("<|>") for code in languages)) or "en"
            raise ZooError(
                f"{name} does not recognise {self.language.name}; choose word_times.language from: "
                f"{codes}."
            )
        return opening_ids(config, self.language.code, name)

    def load(self, device: torch.device | None = None) -> None:
        """See ``WordTimer``."""
        if self._network is None:
            name = self._checked_name()
            self._start = self._opening(name)
            self._extractor = load_part(
                "feature extractor", WhisperFeatureExtractor.from_pretrained, name
            )
            check_extractor(self._extractor, name, chunk_length=LONGEST)
            self._tokenizer = load_part("tokenizer", WhisperTokenizer.from_pretrained, name)
            network = load_network(  # only this attention returns its weights
                WhisperForConditionalGeneration, name, self.dtype, attn_implementation="eager"
            )
            self._attention = WhisperAttention(
                network, self._extractor, heads_of(network, name), self._start
            )
            self._room = int(network.config.max_target_positions)
            self._network = network.requires_grad_(False)
        self._network.to(device or "cpu")

    def times(self, talk: Talk, segments: Sequence[Segment]) -> list[TimedWords]:
        """See ``WordTimer``; call ``load`` first. The score is a mean of tokens, not of frames."""
        assert self._network is not None, "call load first"
        results: dict[int, TimedWords] = {}
        tokens: dict[int, Tokens] = {}
        for index, segment in enumerate(segments):
            if not any(map(str.isalnum, segment.source)):
                results[index] = TimedWords(problem="the transcript has no word")
                continue
            tokens[index] = word_tokens(self._tokenizer, segment.source, self.language)
            if problem := self._problem(segment, tokens[index]):
                results[index] = TimedWords(problem=problem)
        # Texts of similar length share a batch, which keeps the padding short.
        indices = [index for index in range(len(segments)) if index not in results]
        indices.sort(key=lambda index: -len(tokens[index].ids))
        for start in range(0, len(indices), self.batch_size):
            batch = indices[start : start + self.batch_size]
            rows = [(segments[index], tokens[index]) for index in batch]
            results |= dict(zip(batch, self._align(talk, rows), strict=True))
        return [results[index] for index in range(len(segments))]

    def _problem(self, segment: Segment, tokens: Tokens) -> str:
        """Return the reason not to align a segment; empty if there is none."""
        if segment.duration > self.max_seconds:
            return f"it lasts {segment.duration:.1f} s, more than {self.max_seconds:g} s"
        count, room = len(tokens.ids), self._room - len(self._start)
        return f"its {count} tokens are more than {room}" if count > room else ""

    def _align(self, talk: Talk, rows: Sequence[tuple[Segment, Tokens]]) -> list[TimedWords]:
        """Align segments in one batch."""
        waves = [
            audio.load(talk.file, start=talk.offset + segment.offset, duration=segment.duration)
            for segment, _ in rows
        ]
        weights, log_probs = self._attention.force(waves, [tokens.ids for _, tokens in rows])
        results = []
        for wave, row_weights, row_log_probs, (segment, tokens) in zip(
            waves, weights, log_probs, rows, strict=True
        ):
            parts = timed_parts(tokens, row_weights, len(wave))
            if parts is None:
                problem = f"its {frames_of(len(wave))} frames are too few for the "
                results.append(TimedWords(problem=f"{problem}{len(tokens.ids)} tokens of its text"))
                continue
            timed = replace(segment, words=tuple(_in_talk(part, segment) for part in parts))
            words = transcript_words(timed, self.language)
            results.append(TimedWords(tuple(words), score=float(row_log_probs.mean())))
        return results


def _in_talk(part: Word, segment: Segment) -> Word:
    """Return a part of a segment with times from the start of the talk, within the segment."""
    start, end = (min(segment.offset + time, segment.end) for time in (part.start, part.end))
    return Word(part.text, start, end)
