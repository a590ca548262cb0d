"""A language without spaces in bytes: no policy may write a part of a character."""

import pytest
import torch

from tests.contract.scripted import FRAME, WORD_FRAMES, Scripted, SourceWord, recognise, source
from tests.contract.test_combinations import HISTORIES, POLICIES
from tests.fixtures.streams import new_system
from zoo.base.types import SAMPLE_RATE, Capability, Hypothesis, Request, Task
from zoo.streaming.session import Session
from zoo.streaming.simulate import simulate

FIRST = 0x4E10
STOP = "。"
TALKS = [
    [1, 2, 3, 4, 5, 6, 7],
    [51, 1, 2, 51, 51, 3],
    [0, 0, 1, 2, 0, 0, 0, 0, 3, 4, 51, 0, 5],
    [],
    [9],
]


def character(word: int) -> str:
    """The target word of a source word; words from 50 on are full stops."""
    return STOP if word > 50 else chr(FIRST + word)


class Characters(Scripted):
    """Three tokens per word, its bytes; an incomplete word is wrong, often only its last byte."""

    def answer(
        self, session: Session, request: Request, needs: frozenset[Capability]
    ) -> Hypothesis:
        if request.task is Task.TRANSCRIPTION:
            return super().answer(session, request, needs)
        words = recognise(session.visible_audio(request.audio_end))
        prefix = session.prefix_ids.numel()
        ids = [byte for word in words for byte in self.spell(word)]
        finished = all(word.part == WORD_FRAMES for word in words)
        if request.max_words is not None and len(ids) > prefix + 3 * request.max_words:
            ids, finished = ids[: prefix + 3 * request.max_words + 1], False
        tokens = torch.cat([session.prefix_ids, torch.tensor(ids[prefix:], dtype=torch.long)])
        last = torch.tensor([word.last for word in words for _ in range(3)], dtype=torch.long)[
            : len(tokens)
        ]
        return Hypothesis(
            token_ids=tokens[prefix:],
            word_starts=torch.arange(len(tokens)) % 3 == 0,
            prefix_length=prefix,
            finished=finished,
            sentence_ends=tokens == STOP.encode()[-1],
            alignment=torch.eye(session.visible_frames)[last]
            if Capability.ALIGNMENT in needs
            else None,
        )

    def spell(self, word: SourceWord) -> list[int]:
        return list(
            (
                character(word.word) if word.part == WORD_FRAMES else chr(FIRST + 20 + word.part)
            ).encode()
        )

    def text(self, token_ids: list[int]) -> str:
        return bytes(token_ids).decode(errors="replace")


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("policy", POLICIES)
def test_characters_are_written_whole_once_and_in_order(policy: str, history: str) -> None:
    system = new_system(
        Characters(),
        POLICIES[policy](),
        HISTORIES[history](),
        chunk_seconds=3 * FRAME / SAMPLE_RATE,
        target_language="zh",
    )
    for words in TALKS:
        [instance] = simulate(system, [source(words, system.chunk_samples)])
        assert instance.text == "".join(character(word) for word in words if word)
        assert "".join(instance.units) == instance.text
