"""StreamUni's chain of thought, plainly: every look encodes the segment anew and generates its
answer token by token.

Transformers' own network, attention and cache, one stream at a time; nothing is kept between looks.
Only the prompt and the way into the audio encoder are the zoo's. The reference that the fast form
is compared with.
"""

import copy
import math
from collections.abc import Callable, Sequence
from typing import ClassVar

import torch
from torch import Tensor
from transformers import DynamicCache

from zoo.backbones.base import Backbone
from zoo.backbones.common.chain_of_thought.chain_of_thought import ChainOfThought
from zoo.backbones.common.text.vocabulary import Vocabulary
from zoo.streaming.session import Session
from zoo.types import SAMPLE_RATE, Capability, Hypothesis, Request, Samples, Task

Enough = Callable[[list[int]], bool]  # of the new ids
PER_SECOND = (
    5  # new tokens that the released code allows a transcription, per second of its segment
)
PER_WORD = 5  # and a translation, per word that may be written


class PlainLoop(Backbone):
    """The same answers as ``thinker`` gives, which has to be loaded, in languages that write
    spaces.

    limits: ``none`` lets every answer go on to its end; ``released`` stops it where the released
    code does, or where the separator has come and the words that may be written are known, if that
    is later.
    """

    exposes: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.TRANSCRIPT, Capability.PREFIX, Capability.AUDIO_TRIMMING}
    )

    def __init__(self, thinker: ChainOfThought, *, limits: str = "none") -> None:
        super().__init__()
        self.thinker = copy.deepcopy(thinker)
        self.thinker.model.config._attn_implementation = "sdpa"  # of the text
        self.words = Vocabulary(self.thinker.tokenizer, "word")
        self.limited = limits == "released"

    @property
    def frame_samples(self) -> Samples:  # type: ignore[override]
        """The thinker's."""
        return self.thinker.frame_samples

    def text(self, token_ids: list[int]) -> str:
        """The thinker's."""
        return self.thinker.text(token_ids)

    @torch.inference_mode()
    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        """One stream after the other."""
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
        """The whole answer, and of that the transcript."""
        least = math.ceil(PER_SECOND * wave.numel() / SAMPLE_RATE)
        ids, _ = self._generate(
            session,
            wave,
            [],
            self._enough(lambda ids: len(ids) >= least and self._cut(ids) < len(ids)),
        )
        ids = ids[: self._cut(ids)]
        said = torch.tensor(ids, dtype=torch.long)
        vocabulary = self.words
        return Hypothesis(
            token_ids=said,
            word_starts=vocabulary.word_starts(said),
            finished=True,
            sentence_ends=vocabulary.sentence_ends(said),
            transcript=self.thinker.text(ids).strip(),
        )

    def _translation(
        self, session: Session, wave: Tensor, before: list[int], words: int | None
    ) -> Hypothesis:
        """The answer after transcript, separator and all that is written."""
        prefix = session.prefix_ids.tolist()
        vocabulary = self.words

        def known(ids: list[int]) -> bool:
            return (
                words is not None
                and len(ids) >= PER_WORD * words
                and vocabulary.words([*prefix[-1:], *ids]) >= words
            )

        new, finished = self._generate(session, wave, [*before, *prefix], self._enough(known))
        ids = torch.tensor([*prefix, *new], dtype=torch.long)
        return Hypothesis(
            token_ids=ids[len(prefix) :],
            word_starts=vocabulary.word_starts(ids),
            prefix_length=len(prefix),
            finished=finished,
            sentence_ends=vocabulary.sentence_ends(ids),
        )

    def _enough(self, known: Enough) -> Enough | None:
        return known if self.limited else None

    def _cut(self, ids: list[int]) -> int:
        """Where the separator begins, or how long ``ids`` are."""
        separator = self.thinker.prompt.separator
        places = (
            place for place in range(len(ids)) if ids[place : place + len(separator)] == separator
        )
        return next(places, len(ids))

    def _generate(
        self, session: Session, wave: Tensor, after: list[int], enough: Enough | None
    ) -> tuple[list[int], bool]:
        """New ids after prompt and ``after``, the end left out, and whether it came or would never
        have come.
        """
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
            if best.item() == thinker.prompt.end:
                return ids, True
            ids.append(int(best))
            if enough is not None and enough(ids):
                return ids, False
            embeddings = decoder.get_input_embeddings()(best)[None]
        return ids, True

    def _opening(self, session: Session, wave: Tensor, after: list[int]) -> Tensor:
        """(1, n, width): user, speech, instruction, assistant and what has been said."""
        thinker = self.thinker
        features = thinker.prepared(thinker.spectrogram.look(thinker.spectrogram.open(), wave, 0))
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
