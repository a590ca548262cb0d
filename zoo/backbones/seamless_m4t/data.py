"""From excerpts to what SeamlessM4T is trained on. Runs in a data worker; knows no network."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase

from zoo.backbones.common.audio.spectrogram import Spectrogram, stacked
from zoo.data.excerpts import Excerpt

IGNORED = -100


@dataclass(slots=True)
class SpeechBatch:
    """features: (B, F, 2 x bins) normalised over each row's own, zeros after its end; lengths: (B,) how many of them.

    inputs, labels: (B, T) decoder ids and what each predicts.
    """

    features: Tensor
    lengths: Tensor
    inputs: Tensor
    labels: Tensor

    def to(self, device: torch.device) -> "SpeechBatch":
        """The same batch on ``device``."""
        return SpeechBatch(*(getattr(self, name).to(device) for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Collator:
    """Excerpts to a batch. opening: decoder ids before a text, by language. stride: frames side by side."""

    tokenizer: PreTrainedTokenizerBase
    spectrogram: Spectrogram
    opening: Mapping[str, Sequence[int]]
    end: int
    padding: int
    stride: int

    def __call__(
        self, excerpts: Sequence[Excerpt], frames: Sequence[Tensor] | None = None
    ) -> SpeechBatch:
        """Words that were given before are fed, but not learned."""
        assert frames is None, "run.fit has checked it"
        features = [heard(self.spectrogram, excerpt.samples(), self.stride) for excerpt in excerpts]
        rows = [self._row(excerpt) for excerpt in excerpts]
        return SpeechBatch(
            features=pad_sequence(features, batch_first=True),
            lengths=torch.tensor([len(one) for one in features]),
            inputs=pad_sequence(
                [ids for ids, _ in rows], batch_first=True, padding_value=self.padding
            ),
            labels=pad_sequence(
                [labels for _, labels in rows], batch_first=True, padding_value=IGNORED
            ),
        )

    def _row(self, excerpt: Excerpt) -> tuple[Tensor, Tensor]:
        """Decoder ids of one excerpt and what they predict."""
        opening = self.opening[excerpt.language.code]
        inputs = torch.tensor([*opening, *self._ids(excerpt.text)])
        labels = torch.cat([inputs[1:], torch.tensor([self.end])])
        labels[: len(opening) - 1 + len(self._ids(excerpt.prefix))] = IGNORED
        return inputs, labels

    def _ids(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))


def heard(spectrogram: Spectrogram, samples: Tensor, stride: int) -> Tensor:
    """(n,) samples to (features, stride x bins) as the encoder hears them; zeros where they are too few for one."""
    frames = spectrogram.look(spectrogram.open(), samples, 0)
    if len(frames) < stride:
        return frames.new_zeros(1, stride * spectrogram.filters.shape[1])
    return stacked(frames, stride)
