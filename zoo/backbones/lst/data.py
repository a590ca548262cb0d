"""Training batches of LST from excerpts of talks; runs in a data worker."""

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
    """Excerpts to a padded batch of dialogues of one turn."""

    prompt: Prompt

    def __call__(self, excerpts: Sequence[Excerpt]) -> Batch:
        """Build a batch; the loss covers the text that is not given, and its end."""
        size = EMBEDDING_SAMPLES if excerpts[0].frames is None else MERGED
        audio = [
            pad_to_multiple(one.samples() if one.frames is None else one.frames, size)
            for one in excerpts
        ]
        dialogues = [
            dialogue(
                self.prompt,
                excerpt.text,
                given=excerpt.prefix,
                embeddings=len(one) // size,
                source=language(excerpt.talk.source_language),
                target=excerpt.language,
            )
            for excerpt, one in zip(excerpts, audio, strict=True)
        ]
        padding = self.prompt.tokenizer.pad_token_id
        return collate(
            audio,
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
    """A dialogue of one turn: instruction, speech, text and its end.

    Args:
        prompt: Builds the ids.
        text: The translation.
        embeddings: Number of speech embeddings.
        source: Language of the speech.
        target: Language of the text.
        given: Prefix of the text, which is fed but has no loss.
    """
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
