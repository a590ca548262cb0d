"""From excerpts to what LST is trained on. Runs in a data worker; knows no network."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import pad

from zoo.backbones.infinisst.batch import Batch, collate
from zoo.backbones.infinisst.prompt import IGNORED, Prompt, Trajectory
from zoo.data.excerpts import Excerpt
from zoo.languages import Language, language
from zoo.types import Samples

EMBEDDING_SAMPLES: Samples = 1280  # 80 ms: four frames of the encoder


@dataclass(frozen=True, slots=True)
class Collator:
    """Excerpts to a batch of dialogues of one turn, shorter ones padded."""

    prompt: Prompt

    def __call__(self, excerpts: Sequence[Excerpt]) -> Batch:
        """The loss is on the text and its end."""
        heard = [whole_embeddings(excerpt.samples()) for excerpt in excerpts]
        dialogues = [
            dialogue(
                self.prompt,
                excerpt.text,
                embeddings=samples.numel() // EMBEDDING_SAMPLES,
                source=language(excerpt.talk.source_language),
                target=excerpt.language,
            )
            for excerpt, samples in zip(excerpts, heard, strict=True)
        ]
        padding = self.prompt.tokenizer.pad_token_id
        return collate(
            heard,
            dialogues,
            multiplier=1,
            padding=self.prompt.end_of_turn if padding is None else padding,
        )


def dialogue(prompt: Prompt, text: str, *, embeddings: int, source: Language, target: Language) -> Trajectory:
    """Instruction, so many speech embeddings, and the text with its end."""
    before = prompt.instruction(source=source, target=target, multiplier=1)
    first = len(before) + prompt.spoken(embeddings).index(prompt.speech)
    before = before + prompt.spoken(embeddings)
    answer = prompt.answer(text)
    return Trajectory(
        input_ids=before + answer,
        labels=[IGNORED] * len(before) + answer,
        speech_positions=list(range(first, first + embeddings)),
    )


def whole_embeddings(samples: Tensor) -> Tensor:
    """(n,) samples, filled up with zeros to whole embeddings."""
    return pad(samples, (0, -samples.numel() % EMBEDDING_SAMPLES))
