"""From excerpts to what LST is trained on. Runs in a data worker; knows no network."""

from collections.abc import Sequence
from dataclasses import dataclass

from zoo.backbones.common.speech_llm.data import Batch, collate
from zoo.backbones.common.speech_llm.prompt import Prompt, Trajectory
from zoo.backbones.common.teacher_forcing import IGNORED
from zoo.backbones.common.wav2vec2.adapter import MERGED, pad_to_multiple
from zoo.data.excerpts import Excerpt
from zoo.languages import Language, language
from zoo.types import Samples

EMBEDDING_SAMPLES: Samples = 1280  # 80 ms


@dataclass(frozen=True, slots=True)
class Collator:
    """Excerpts to a batch of dialogues of one turn, shorter ones padded."""

    prompt: Prompt

    def __call__(self, excerpts: Sequence[Excerpt]) -> Batch:
        """The loss is on the text that is not given, and on its end."""
        size = EMBEDDING_SAMPLES if excerpts[0].frames is None else MERGED
        waves = [e.samples() if e.frames is None else e.frames for e in excerpts]
        heard = [pad_to_multiple(wave, size) for wave in waves]
        dialogues = [
            dialogue(
                self.prompt,
                excerpt.text,
                given=excerpt.prefix,
                embeddings=len(one) // size,
                source=language(excerpt.talk.source_language),
                target=excerpt.language,
            )
            for excerpt, one in zip(excerpts, heard, strict=True)
        ]
        padding = self.prompt.tokenizer.pad_token_id
        return collate(
            heard,
            dialogues,
            multiplier=1,
            padding=self.prompt.end_of_turn if padding is None else padding,
        )


def dialogue(
    prompt: Prompt,
    text: str,
    *,
    embeddings: int,
    source: Language,
    target: Language,
    given: str = "",
) -> Trajectory:
    """Instruction, so many speech embeddings, and the text with its end. given: its begin, which is not learned."""
    before = prompt.instruction(source=source, target=target, multiplier=1)
    first = len(before) + prompt.spoken(embeddings).index(prompt.speech)
    before = before + prompt.spoken(embeddings)
    answer = prompt.answer(text)
    forced = len(prompt.answer(given)) - 1
    return Trajectory(
        input_ids=before + answer,
        labels=[IGNORED] * (len(before) + forced) + answer[forced:],
        speech_positions=list(range(first, first + embeddings)),
    )
