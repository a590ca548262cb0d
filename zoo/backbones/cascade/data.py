"""Training batches of a text LLM from excerpts of talks, without their audio; runs in a data
worker.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from torch import Tensor

from zoo.backbones.cascade.prompt import Prompt
from zoo.backbones.common.teacher_forcing import IGNORED, TensorBatch, pad_ids
from zoo.data.excerpts import Excerpt
from zoo.data.spelling import spelling
from zoo.languages import language


@dataclass(slots=True)
class TextBatch(TensorBatch):
    """Prompts and answers, padded at the end (causal attention needs no mask there).

    Attributes:
        input_ids: (batch, T).
        labels: (batch, T), the id *at* each position, or ``IGNORED``.
    """

    input_ids: Tensor
    labels: Tensor


@dataclass(frozen=True, slots=True)
class Collator:
    """Excerpts to a batch: source words and some words of the translation as prompt, the rest as
    answer.

    The number of written words, and which transcripts are plain, are drawn from the excerpt itself,
    so they do not depend on the worker.

    Attributes:
        prompt: The backbone's.
        plain: Share of transcripts without case and punctuation, as those of a CTC head.
    """

    prompt: Prompt
    plain: float

    def __call__(self, excerpts: Sequence[Excerpt]) -> TextBatch:
        """Build a batch; the loss covers the answer, its end, and the quoted translation."""
        turns = [self._turn(excerpt) for excerpt in excerpts]
        labels = [
            [id_ if learned else IGNORED for id_, learned in zip(*turn, strict=True)]
            for turn in turns
        ]
        return TextBatch(
            input_ids=pad_ids([ids for ids, _ in turns], self.prompt.end),
            labels=pad_ids(labels, IGNORED),
        )

    def _turn(self, excerpt: Excerpt) -> tuple[list[int], list[bool]]:
        """Ids of prompt and answer, and which of them have a loss."""
        random = Random(f"{excerpt.talk.name} {excerpt.start} {excerpt.end}")
        written = random.randint(excerpt.given, len(excerpt.target))
        source = language(excerpt.talk.source_language)
        plain = random.random() < self.plain
        words = [spelling(word) for word in excerpt.source] if plain else excerpt.source
        given = excerpt.language.join(excerpt.target[:written])
        opening, quoted = self.prompt.quoted(
            source=source,
            target=excerpt.language,
            transcript=source.join(word for word in words if word),
            translation=given,
        )
        if self.prompt.forces:
            answer, forced = self.prompt.ids(excerpt.text), len(self.prompt.ids(given))
        else:
            answer, forced = self.prompt.ids(excerpt.language.join(excerpt.target[written:])), 0
        if (
            self.prompt.forces or excerpt.given
        ):  # a copy of what is forced; what its transcript does not tell
            quoted = [False] * len(opening)
        learned = [*quoted, *[False] * forced, *[True] * (len(answer) - forced + 1)]
        return [*opening, *answer, self.prompt.end], learned
