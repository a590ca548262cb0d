"""Word times by the cross-attention of Whisper (Radford et al., 2023), in all its languages.

Some attention heads of the decoder follow the audio; the generation_config.json of OpenAI's models
lists them. The transcript is forced, so its words are those of the corpus.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import ceil
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    GenerationConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
    WhisperTokenizer,
)

from zoo.alignment.times.base import TimedWords
from zoo.alignment.times.monotonic import first_frames
from zoo.alignment.times.tokens import Tokens, word_tokens
from zoo.audio import files as audio
from zoo.backbones.base import dtype_named
from zoo.backbones.common.pretrained import hub
from zoo.backbones.common.pretrained.loading import (
    alignment_heads,
    check_extractor,
    control_id,
    load_network,
    load_part,
    model_type,
)
from zoo.backbones.ctc.best_path import features
from zoo.data.word_times import transcript_words
from zoo.errors import ZooError, check_numbers
from zoo.languages import language as language_of
from zoo.talks import Segment, Talk, Word
from zoo.types import SAMPLE_RATE, Samples, Seconds

NOUN = "Whisper"
FRAME: Samples = 320  # 20 ms, of the encoder
LONGEST: Seconds = 30  # length of the encoder's input
FLOOR = 1e-3  # attention below it counts as this much, so that no single frame decides


class WhisperTimes:
    """An aligner that finds the best monotonic path through Whisper's attention to the audio.

    The weights of a token are those of the position that predicts it, averaged over the alignment
    heads; the path maximises the sum of their logarithms. A token lasts until the path reaches the
    next one, so a word before a pause may last into the pause.

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
        start = control_id(config, "decoder_start_token_id", name)
        tasks = fields.get("task_to_id") or {}
        language_ids = [languages[token], tasks.get("transcribe")] if languages else []
        ids = [start, *language_ids, fields.get("no_timestamps_token_id")]
        return [number for number in ids if number is not None]

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
            self._heads = _alignment_heads(network, name)
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

    @torch.inference_mode()
    def _align(self, talk: Talk, rows: Sequence[tuple[Segment, Tokens]]) -> list[TimedWords]:
        """Align segments in one batch."""
        waves = [
            audio.load(talk.file, start=talk.offset + segment.offset, duration=segment.duration)
            for segment, _ in rows
        ]
        weights, log_probs = self._forced(waves, [tokens.ids for _, tokens in rows])
        results = []
        for wave, row_weights, row_log_probs, (segment, tokens) in zip(
            waves, weights, log_probs, rows, strict=True
        ):
            frames = max(1, ceil(len(wave) / FRAME))
            firsts = first_frames(row_weights[:, :frames].clamp_min(FLOOR).log())
            if firsts is None:
                problem = f"its {frames} frames are too few for the {len(tokens.ids)} tokens"
                results.append(TimedWords(problem=f"{problem} of its text"))
                continue
            words = transcript_words(
                replace(segment, words=self._words(tokens, firsts, segment)), self.language
            )
            results.append(TimedWords(tuple(words), score=float(row_log_probs.mean())))
        return results

    def _forced(
        self, waves: Sequence[Tensor], texts: Sequence[Sequence[int]]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Run the network over waves with their texts.

        Args:
            waves: (samples,) audio of each segment.
            texts: token ids of each segment.

        Returns:
            For each segment, the attention (tokens + 1, encoder frames) of its tokens and of the
            end of the text, and the log-probabilities (tokens,) of its tokens.
        """
        device = self._network.device
        inputs = features(self._extractor, waves)["input_features"].to(device, self.dtype)
        memory = self._network.model.encoder(inputs).last_hidden_state
        ids = pad_sequence(
            [torch.tensor([*self._start, *text]) for text in texts], batch_first=True
        ).to(device)
        decoded = self._network.model.decoder(
            input_ids=ids, encoder_hidden_states=memory, use_cache=False, output_attentions=True
        )
        layers = decoded.cross_attentions  # each (batch, heads, tokens, encoder frames)
        attention = torch.stack([layers[layer][:, head] for layer, head in self._heads]).mean(dim=0)
        weights, log_probs = [], []
        first = len(self._start) - 1  # the position that predicts the first token of the text
        for row, text in enumerate(texts):
            weights.append(attention[row, first : first + len(text) + 1].float())
            states = decoded.last_hidden_state[row, first : first + len(text)]
            scores = self._network.proj_out(states).float().log_softmax(dim=-1)
            log_probs.append(scores.gather(1, torch.tensor(text, device=device)[:, None])[:, 0])
        return weights, log_probs

    @staticmethod
    def _words(tokens: Tokens, firsts: Sequence[int], segment: Segment) -> tuple[Word, ...]:
        """Return the parts of a transcript with times, in seconds from the start of the talk.

        Args:
            tokens: tokens of the transcript.
            firsts: first frame of each token and of the end of the text.
            segment: segment, which all words lie in.
        """
        edges = [firsts[index] for index in (*tokens.firsts, len(tokens.ids))]
        times = [min(segment.offset + frame * FRAME / SAMPLE_RATE, segment.end) for frame in edges]
        return tuple(
            Word(text, start, end)
            for text, (start, end) in zip(tokens.texts, pairwise(times), strict=True)
        )


def _alignment_heads(network: Any, name: str) -> list[tuple[int, int]]:
    """Return pairs of layer and head: those of the generation config, or the upper half of all.

    Raises:
        ZooError: the decoder lacks one of them.
    """
    depth, heads = network.config.decoder_layers, network.config.decoder_attention_heads
    every = [(layer, head) for layer in range(depth) for head in range(heads)]
    listed = alignment_heads(network.generation_config.to_dict(), depth, heads)
    chosen = [(int(layer), int(head)) for layer, head in listed]
    if missing := [pair for pair in chosen if pair not in every]:
        raise ZooError(
            f"The generation_config.json of {name} lists alignment heads that the decoder of "
            f"{depth} layers with {heads} heads lacks: {missing}."
        )
    return chosen
