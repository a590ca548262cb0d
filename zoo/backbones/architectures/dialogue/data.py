"""Training batches of dialogues; this code runs in data workers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from zoo.backbones.architectures.dialogue.prompt import DialogueBound, TurnPrompt
from zoo.backbones.decoding.teacher_forcing import IGNORED, pad_ids
from zoo.backbones.encoders.audio.spectrogram import Spectrogram, encoder_inputs
from zoo.base.languages import Language


@dataclass(frozen=True, slots=True)
class Stream:
    """A part of a stream with its turns.

    Attributes:
        waves: Samples (n,) of each user turn.
        words: Words of each assistant turn, joined; an empty text is ``<wait>``.
        source: Language of the speech.
        target: Language of the words.
    """

    waves: Sequence[Tensor]
    words: Sequence[str]
    source: Language
    target: Language


@dataclass(slots=True)
class DialogueBatch:
    """Dialogues, padded at the end (causal attention needs no mask there).

    Attributes:
        features: Encoder input (F, bins) of each user turn of each stream.
        speech: (n,) for the speech embeddings of all dialogues, row by row: their index in the
            speech embeddings of all ``features``. Turns that begin a second dialogue of a stream
            occur twice.
        input_ids: (dialogues, L) token ids.
        labels: (dialogues, L) the id *at* each position that has a loss, ``IGNORED`` elsewhere.
    """

    features: list[Tensor]
    speech: Tensor
    input_ids: Tensor
    labels: Tensor


@dataclass(frozen=True, slots=True)
class DialogueCollator:
    """Builds a batch from streams, each divided into dialogues as ``bound`` divides it.

    Only assistant turns have a loss: words, ``<wait>`` and end token. The turns with which a later
    dialogue of the stream begins have none, because an earlier dialogue generated them.

    Attributes:
        prompt: Builds the token ids of turns.
        spectrogram: Computes the feature frames of the backbone.
        prepared: Converts spectrogram frames (F, bins) to encoder input.
        embeddings: Returns the number of speech embeddings for a number of feature frames.
        bound: Number of turns that a dialogue keeps.
    """

    prompt: TurnPrompt
    spectrogram: Spectrogram
    prepared: Callable[[Tensor], Tensor]
    embeddings: Callable[[int], int]
    bound: DialogueBound

    def __call__(self, streams: Sequence[Stream]) -> DialogueBatch:
        """Build a batch."""
        waves = [wave for stream in streams for wave in stream.waves]
        features = encoder_inputs(self.spectrogram, self.prepared, waves)
        counts = [self.embeddings(len(frames)) for frames in features]
        indices = torch.arange(sum(counts)).split(counts)  # of each user turn

        speech: list[Tensor] = []
        input_ids: list[list[int]] = []
        labels: list[list[int]] = []
        first = 0  # user turn of the batch with which the stream begins
        for stream in streams:
            for turns, begun in self.bound.dialogues(len(stream.waves)):
                ids = self.prompt.instruction(stream.source, stream.target)
                targets = [IGNORED] * len(ids)
                for turn in turns:
                    user = self.prompt.user(counts[first + turn])
                    last = turn == len(stream.waves) - 1
                    answer = self.prompt.answer(stream.words[turn], last=last)
                    ids += user + answer
                    targets += [IGNORED] * len(user)
                    targets += answer if turn >= begun else [IGNORED] * len(answer)
                    speech.append(indices[first + turn])
                input_ids.append(ids)
                labels.append(targets)
            first += len(stream.waves)

        return DialogueBatch(
            features=features,
            speech=torch.cat(speech),
            input_ids=pad_ids(input_ids, self.prompt.end),
            labels=pad_ids(labels, IGNORED),
        )
