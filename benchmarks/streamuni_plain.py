"""Reference implementation of StreamUni's chain of thought: no state is kept between chunks.

At every chunk it encodes the whole segment and generates the answer token by token, one stream at a
time, with Transformers' own network, attention and cache. Prompt and audio features are the zoo's.
"""

import copy
import math
from collections.abc import Callable, Sequence
from typing import ClassVar

import torch
from torch import Tensor
from transformers import DynamicCache

from zoo.backbones.architectures.chain_of_thought.chain_of_thought import ChainOfThought
from zoo.backbones.base import Backbone
from zoo.backbones.text.spoken import SpacedWords
from zoo.base.types import SAMPLE_RATE, Capability, Hypothesis, Request, Samples, Task
from zoo.streaming.session import Session

Stop = Callable[[list[int]], bool]  # of the new token ids
TOKENS_PER_SECOND = 5  # the released code's limit of a transcription, per second of its segment
TOKENS_PER_WORD = 5  # the released code's limit of a translation, per word that may be emitted


class PlainLoop(Backbone):
    """Gives the answers of ``thinker``, for target languages that write spaces.

    Args:
        thinker: the loaded backbone to copy.
        limits: ``none`` generates every answer to its end; ``released`` stops where the released
            code does, or where the separator and the words to emit are known, if that is later.
    """

    exposes: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.TRANSCRIPT, Capability.PREFIX, Capability.AUDIO_TRIMMING}
    )

    def __init__(self, thinker: ChainOfThought, *, limits: str = "none") -> None:
        super().__init__()
        self.thinker = copy.deepcopy(thinker)
        self.thinker.model.config._attn_implementation = "sdpa"  # of the text
        self.words = SpacedWords(self.thinker.tokenizer)
        self.limited = limits == "released"

    def arrange(self) -> None:
        """The weights stay as Transformers stores them."""

    @property
    def frame_samples(self) -> Samples:  # type: ignore[override]
        """As the thinker's."""
        return self.thinker.frame_samples

    def text(self, token_ids: list[int]) -> str:
        """As the thinker's."""
        return self.thinker.text(token_ids)

    @torch.inference_mode()
    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        """Answer one stream after another."""
        return [
            self._answer(session, request)
            for session, request in zip(sessions, requests, strict=True)
        ]

    def _answer(self, session: Session, request: Request) -> Hypothesis:
        wave = session.visible_audio(request.audio_end)
        if request.task is Task.TRANSCRIPTION:
            return self._transcript(session, wave)
        transcript = (
            self._transcript(session, wave).token_ids
            if request.transcript_ids is None
            else request.transcript_ids
        )
        before = [*transcript.tolist(), *self.thinker.prompt.separator]
        return self._translation(session, wave, before, request.max_words)

    def _transcript(self, session: Session, wave: Tensor) -> Hypothesis:
        """Generate the answer and return its transcript."""
        least = math.ceil(TOKENS_PER_SECOND * wave.numel() / SAMPLE_RATE)
        ids, _ = self._generate(
            session,
            wave,
            [],
            self._stop(lambda ids: len(ids) >= least and self._cut(ids) < len(ids)),
        )
        ids = ids[: self._cut(ids)]
        token_ids = torch.tensor(ids, dtype=torch.long)
        vocabulary = self.words
        return Hypothesis(
            token_ids=token_ids,
            word_starts=vocabulary.word_starts(token_ids),
            finished=True,
            sentence_ends=vocabulary.sentence_ends(token_ids),
            transcript=self.thinker.text(ids).strip(),
        )

    def _translation(
        self, session: Session, wave: Tensor, before: list[int], words: int | None
    ) -> Hypothesis:
        """Generate the translation after transcript, separator and emitted tokens."""
        prefix = session.prefix_ids.tolist()
        vocabulary = self.words

        def has_words(ids: list[int]) -> bool:
            return (
                words is not None
                and len(ids) >= TOKENS_PER_WORD * words
                and vocabulary.words([*prefix[-1:], *ids]) >= words
            )

        new, finished = self._generate(session, wave, [*before, *prefix], self._stop(has_words))
        ids = torch.tensor([*prefix, *new], dtype=torch.long)
        return Hypothesis(
            token_ids=ids[len(prefix) :],
            word_starts=vocabulary.word_starts(ids),
            prefix_length=len(prefix),
            finished=finished,
            sentence_ends=vocabulary.sentence_ends(ids),
        )

    def _stop(self, has_words: Stop) -> Stop | None:
        return has_words if self.limited else None

    def _cut(self, ids: list[int]) -> int:
        """Position of the separator in ``ids``, or their number."""
        separator = self.thinker.prompt.separator
        places = (
            place for place in range(len(ids)) if ids[place : place + len(separator)] == separator
        )
        return next(places, len(ids))

    def _generate(
        self, session: Session, wave: Tensor, after: list[int], stop: Stop | None
    ) -> tuple[list[int], bool]:
        """New ids after prompt and ``after`` without the end; False if ``stop`` ended them."""
        thinker = self.thinker
        decoder, cache = thinker.decoder, DynamicCache()
        embeddings, ids = self._opening(session, wave, after), list[int]()
        while len(ids) < thinker.max_tokens:
            states = decoder.model(
                inputs_embeds=embeddings, past_key_values=cache, use_cache=True
            ).last_hidden_state
            scores = decoder.get_output_embeddings()(states[:, -1])
            scores[:, thinker.never] = -torch.inf
            best = scores.argmax(dim=-1)
            if best.item() in thinker.ends:
                return ids, True
            ids.append(int(best))
            if stop is not None and stop(ids):
                return ids, False
            embeddings = decoder.get_input_embeddings()(best)[None]
        return ids, True

    def _opening(self, session: Session, wave: Tensor, after: list[int]) -> Tensor:
        """(1, n, width): embeddings of the prompt, the speech and the ids ``after``."""
        thinker = self.thinker
        features = thinker.prepared(
            thinker.spectrogram.compute(thinker.spectrogram.open(), wave, 0)
        )
        table = thinker.decoder.get_input_embeddings()
        speech = table.weight.new_zeros(0, table.weight.shape[1])
        if thinker.embeddings(len(features)):
            [hidden], _ = thinker.encode([features.to(table.weight)])
            speech = thinker.project(hidden)
        ids = torch.tensor(
            [*thinker.prompt.opening(len(speech), session.target_language), *after],
            device=table.weight.device,
        )
        embeddings = table(ids)
        begin = thinker.prompt.speech
        embeddings[begin : begin + len(speech)] = speech
        return embeddings[None]
