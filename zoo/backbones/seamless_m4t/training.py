"""How a SeamlessM4T is trained to hear and to write: frames for labels, teacher forcing, parts. Knows no data."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils.rnn import pad_sequence
from transformers.models.seamless_m4t.modeling_seamless_m4t import SeamlessM4TSpeechEncoder

from zoo.backbones.common.audio.spectrogram import HOP, WINDOW
from zoo.backbones.seamless_m4t.data import IGNORED, Collator, SpeechBatch, heard
from zoo.backbones.seamless_m4t.seamless_m4t import CODES, STRIDE, SUBSAMPLING, SeamlessM4T

FRAME_SAMPLES = STRIDE * HOP  # 20 ms: of the conformer, before the adaptor


class SpeechTraining(SeamlessM4T):
    """What ``SeamlessM4TSpeech`` needs to be trained from speech to text; ``load`` has set its parts.

    Statistics of batch normalisation are learned by ``encode_training``, whose rows have no padding. Elsewhere they
    stay, so that a row of a batch is encoded as it would be alone.
    """

    encoder: SeamlessM4TSpeechEncoder

    def parts(self) -> Mapping[str, Iterable[nn.Parameter]]:
        """Parameters by name: ``encoder`` lies under the ``adaptor``, ``decoder`` has the embeddings of texts."""
        assert self.encoder.adapter is not None, "build has checked it"
        adaptor = [*self.encoder.adapter.parameters(), *self.encoder.inner_layer_norm.parameters()]
        above = set(adaptor)
        return {
            "encoder": [
                parameter for parameter in self.encoder.parameters() if parameter not in above
            ],
            "adaptor": adaptor,
            "decoder": list(self.decoder.parameters()),
        }

    def collator(self) -> Collator:
        """Makes what ``forward`` takes."""
        openings = {
            ours: [self.start, self.languages[code]]
            for ours, code in CODES.items()
            if code in self.languages
        }
        return Collator(
            tokenizer=self.tokenizer,
            spectrogram=self.spectrogram,
            opening=openings,
            end=self.end,
            padding=int(self.decoder.module.padding_idx),
            stride=STRIDE,
        )

    def encode_training(self, samples: Tensor, multiplier: int) -> tuple[Tensor, Tensor]:
        """(batch, n) samples to (batch, n // 320, hidden) before the adaptor, and of the middle layer.

        Silence follows, so that the last label has a frame, too. multiplier: of no account, there are no blocks.
        """
        silence = WINDOW - HOP
        rows = [heard(self.spectrogram, F.pad(row, (0, silence)), STRIDE) for row in samples.cpu()]
        features = torch.stack(rows).to(samples.device, self.dtype)
        with (
            statistics(self.encoder, learned=self.encoder.training),
            tapped(self._middle) as middle,
        ):
            hidden = self.encoder.encoder(self.encoder.feature_projection(features))
            hidden = hidden + 0.5 * self.encoder.intermediate_ffn(hidden)
        return hidden, middle[0]

    @property
    def _middle(self) -> nn.Module:
        layers = self.encoder.encoder.layers
        return layers[(len(layers) - 1) // 2]

    def forward(self, batch: SpeechBatch) -> dict[str, Tensor]:
        """Teacher forcing: cross-entropy of the translation, its end included."""
        memory, inside = self.memories(batch.features, batch.lengths)
        states = self.decoder.module(
            input_ids=batch.inputs,
            encoder_hidden_states=memory,
            encoder_attention_mask=inside,
            use_cache=False,
        ).last_hidden_state
        labelled = batch.labels != IGNORED
        labels, logits = batch.labels[labelled], self.decoder.head(states[labelled])
        return {
            "loss": F.cross_entropy(
                logits.to(torch.promote_types(logits.dtype, torch.float32)), labels
            ),
            "token_accuracy": (logits.argmax(-1) == labels).float().mean(),
        }

    def memories(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(B, F, 2 x bins), of which (B,) are no padding, to (B, frames, width) and (B, frames) 1 inside, 0 outside.

        Without mixed precision where a row is shorter than the adaptor's stride: PyTorch 2.13 on CPU then gives
        gradients of the adaptor's convolutions in bfloat16 that are no numbers, now and then.
        """
        rows = [
            row[:length].to(self.dtype)
            for row, length in zip(features, lengths.tolist(), strict=True)
        ]
        device = features.device.type
        mixed = torch.is_autocast_enabled(device) and int(lengths.min()) >= SUBSAMPLING
        with statistics(self.encoder, learned=False), torch.autocast(device, enabled=mixed):
            memories = self._encode(rows)
        frames = torch.tensor([len(memory) for memory in memories], device=features.device)
        memory = pad_sequence(memories, batch_first=True)
        inside = torch.arange(memory.shape[1], device=features.device) < frames[:, None]
        return memory, inside.long()


@contextmanager
def statistics(encoder: nn.Module, *, learned: bool) -> Iterator[None]:
    """Batch normalisation by the batch, which learns them, or by what was learned."""
    norms = [module for module in encoder.modules() if isinstance(module, _BatchNorm)]
    before = [norm.training for norm in norms]
    for norm in norms:
        norm.train(learned)
    try:
        yield
    finally:
        for norm, mode in zip(norms, before, strict=True):
            norm.train(mode)


@contextmanager
def tapped(layer: nn.Module) -> Iterator[list[Tensor]]:
    """What ``layer`` gives inside the block, call by call."""
    seen: list[Tensor] = []

    def see(_: nn.Module, __: Any, given: Tensor) -> None:
        seen.append(given)

    handle = layer.register_forward_hook(see)
    try:
        yield seen
    finally:
        handle.remove()
