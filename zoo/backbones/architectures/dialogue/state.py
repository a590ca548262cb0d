"""State of one stream that a dialogue keeps between turns."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from zoo.backbones.architectures.dialogue.prompt import DialogueBound


@dataclass(frozen=True, slots=True)
class Turn:
    """A user turn with its answer.

    Attributes:
        embeddings: (n, width) embeddings of the turn, from the string before the speech to the end
            token of the answer.
        words: Token ids of the words of the answer; none if the answer was ``<wait>``.
    """

    embeddings: Tensor
    words: list[int]


@dataclass(slots=True)
class DialogueState:
    """State of one stream: the kept turns, and keys and values of their beginning.

    Keys and values depend on all earlier positions, also in the layers above the first. When turns
    are dropped, ``cache`` is emptied therefore, and the next prompt begins with the instruction and
    the kept turns, so that a dialogue is computed as if it had begun with them.

    Attributes:
        instruction: (n, width) embeddings of the instruction.
        cache: (layers, 2, heads, n, head size) keys and values of the first n positions.
        turns: Kept turns, oldest first.
        waits: Number of the last turns in a row without words.
    """

    instruction: Tensor
    cache: Tensor
    turns: list[Turn] = field(default_factory=list)
    waits: int = 0

    def drop_turns(self, bound: DialogueBound) -> None:
        """Drop the oldest turns if there is no room for the next one."""
        if dropped := bound.dropped(len(self.turns)):
            self.turns = self.turns[dropped:]
            self.empty_cache()

    def empty_cache(self) -> None:
        """Drop all keys and values; the next prompt has all positions."""
        self.cache = self.cache[:, :, :, :0]

    def prompt(self, user: Tensor) -> Tensor:
        """Return the embeddings (n, width) of the positions after the cache.

        Args:
            user: (m, width) embeddings of the next user turn, which come last.
        """
        positions = [self.instruction, *(turn.embeddings for turn in self.turns), user]
        return torch.cat(positions)[self.cache.shape[3] :]

    @property
    def words(self) -> list[int]:
        """Token ids of the words of all kept turns."""
        return [token for turn in self.turns for token in turn.words]

    def add(self, turn: Turn, cache: Sequence[Tensor]) -> None:
        """Add a turn.

        Args:
            turn: The turn.
            cache: Keys and values (layers, 2, heads, n, head size) that follow each other, from the
                first position of the dialogue on.
        """
        self.turns.append(turn)
        self.cache = torch.cat(list(cache), dim=3)
        self.waits = 0 if turn.words else self.waits + 1
