"""Collation of excerpts of talks into training batches of LST, in a data worker process."""

from collections.abc import Sequence
from dataclasses import dataclass

from zoo.backbones.architectures.speech_llm.data import Batch, collate
from zoo.backbones.architectures.speech_llm.prompt import DialoguePrompt, Trajectory
from zoo.backbones.decoding.teacher_forcing import IGNORED
from zoo.backbones.encoders.wav2vec2.adapter import MERGED, pad_to_multiple
from zoo.backbones.excerpt import TrainingExcerpt
from zoo.base.languages import Language, language
from zoo.base.types import Samples

EMBEDDING_SAMPLES: Samples = 1280  # audio of one speech embedding: 80 ms at 16 kHz


@dataclass(frozen=True, slots=True)
class LSTCollator:
    """Collates excerpts of talks into a padded batch of one-turn dialogues.

    Attributes:
        prompt: Builds the token ids of a dialogue.
    """

    prompt: DialoguePrompt

    def __call__(self, excerpts: Sequence[TrainingExcerpt]) -> Batch:
        """Build a batch.

        The loss covers the translation after the prefix of the excerpt, and the end-of-turn id.

        Args:
            excerpts: Excerpts that all have audio or all have frames of a frozen encoder.
        """
        # length of one speech embedding: in samples, or in frames of the frozen encoder
        size = EMBEDDING_SAMPLES if excerpts[0].frames is None else MERGED
        audio = [
            pad_to_multiple(excerpt.samples() if excerpt.frames is None else excerpt.frames, size)
            for excerpt in excerpts
        ]
        dialogues = [
            dialogue(
                self.prompt,
                excerpt.text,
                prefix=excerpt.prefix,
                num_embeddings=len(signal) // size,
                source=language(excerpt.talk.source_language),
                target=excerpt.language,
            )
            for excerpt, signal in zip(excerpts, audio, strict=True)
        ]
        padding = self.prompt.tokenizer.pad_token_id
        return collate(
            audio,
            dialogues,
            multiplier=1,
            padding=self.prompt.end_of_turn if padding is None else padding,
        )


def dialogue(
    prompt: DialoguePrompt,
    text: str,
    *,
    num_embeddings: int,
    source: Language,
    target: Language,
    prefix: str = "",
) -> Trajectory:
    """Build a dialogue of one turn: instruction, speech, translation and end-of-turn id.

    Args:
        prompt: Builds the token ids.
        text: Whole translation.
        num_embeddings: Number of speech embeddings.
        source: Language of the speech.
        target: Language of the translation.
        prefix: Prefix of the translation that the decoder receives without loss.

    Returns:
        Token ids, labels of the same length, and the positions of the speech embeddings.
    """
    instruction = prompt.instruction(source=source, target=target, multiplier=1)
    speech = prompt.spoken(num_embeddings)
    opening = instruction + speech
    first = len(instruction) + speech.index(prompt.speech)

    answer = prompt.answer(text)
    forced = len(prompt.answer(prefix)) - 1  # ids of the prefix without the end-of-turn id
    return Trajectory(
        input_ids=opening + answer,
        labels=[IGNORED] * (len(opening) + forced) + answer[forced:],
        speech_positions=list(range(first, first + num_embeddings)),
    )
