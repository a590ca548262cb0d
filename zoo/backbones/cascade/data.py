"""Training batches of a cascade's text LLM from excerpts of talks, without audio.

This code runs in data workers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from torch import Tensor

from zoo.backbones.cascade.prompt import CascadePrompt, PromptFields
from zoo.backbones.decoding.teacher_forcing import IGNORED, pad_ids
from zoo.backbones.excerpt import TrainingExcerpt
from zoo.base.languages import language, spelling


@dataclass(slots=True)
class TextBatch:
    """Prompts and answers, padded at the end (causal attention needs no mask there).

    Attributes:
        input_ids: Token ids (batch, T) of prompts and answers.
        labels: Labels (batch, T): the id *at* each position with a loss, ``IGNORED`` elsewhere.
    """

    input_ids: Tensor
    labels: Tensor


@dataclass(frozen=True, slots=True)
class CascadeCollator:
    """Builds a batch of translation prompts and answers from excerpts of talks.

    The prompt contains the source words and a random number of written target words. The answer
    contains the remaining target words. Random numbers are seeded with the excerpt, so a batch does
    not depend on the data worker.

    Attributes:
        prompt: Builds the prompts of the translator.
        plain: Share of excerpts whose source words have neither case nor punctuation, like
            transcripts of a CTC head.
    """

    prompt: CascadePrompt
    plain: float

    def __call__(self, excerpts: Sequence[TrainingExcerpt]) -> TextBatch:
        """Build a batch with labels for answer, end token and the translation in the prompt."""
        input_ids = []
        labels = []
        for excerpt in excerpts:
            token_ids, loss_mask = self._encode_turn(excerpt)
            input_ids.append(token_ids)
            labels.append(
                [
                    token_id if has_loss else IGNORED
                    for token_id, has_loss in zip(token_ids, loss_mask, strict=True)
                ]
            )
        return TextBatch(
            input_ids=pad_ids(input_ids, self.prompt.end), labels=pad_ids(labels, IGNORED)
        )

    def _encode_turn(self, excerpt: TrainingExcerpt) -> tuple[list[int], list[bool]]:
        """Encode the prompt and the answer of an excerpt.

        Returns:
            Token ids (T,), and a mask (T,) that is True at ids with a loss.
        """
        generator = Random(f"{excerpt.talk.name} {excerpt.start} {excerpt.end}")
        written_words = generator.randint(excerpt.num_forced, len(excerpt.target))
        is_plain = generator.random() < self.plain

        source_language = language(excerpt.talk.source_language)
        source_words = list(excerpt.source)
        if is_plain:
            source_words = [spelling(word) for word in source_words]
        written_text = excerpt.language.join(excerpt.target[:written_words])
        opening, loss_mask = self.prompt.quoted(
            PromptFields(
                source=source_language,
                target=excerpt.language,
                transcript=source_language.join(word for word in source_words if word),
                translation=written_text,
            )
        )
        # Written words get no loss in the prompt if the answer repeats them, or if the excerpt
        # starts with forced words: their source words are not in the transcript.
        if self.prompt.forces or excerpt.num_forced:
            loss_mask = [False] * len(opening)

        if self.prompt.forces:
            answer = self.prompt.ids(excerpt.text)
            forced_length = len(self.prompt.ids(written_text))
        else:
            answer = self.prompt.ids(excerpt.language.join(excerpt.target[written_words:]))
            forced_length = 0
        free_length = len(answer) - forced_length + 1  # including the end token
        loss_mask = [*loss_mask, *[False] * forced_length, *[True] * free_length]
        return [*opening, *answer, self.prompt.end], loss_mask
