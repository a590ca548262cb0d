"""Silence at the end of an encoder's input, encoded once for all inputs. Ours, in no paper.

Whisper's encoder has inputs of 30 s, of which the audio of a stream fills a part; the rest is
silence. The encoder attends in both directions, so each frame of silence depends on the audio, but
little: its keys and values in an input of silence alone serve as well. Thus only the frames of the
audio and of a short silence after it pass through the layers, and attend to the others.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.backbones.architectures.encoder_decoder.layers import CrossMemory, KnownFrames
from zoo.base.types import Frames

LEVELS_PER_UNIT = 10  # of a log-mel value: levels of silence that share activations
LARGEST_FLOAT16 = torch.finfo(torch.float16).max - 1000  # as Transformers limits activations
KEPT_LEVELS = 2  # of which activations stay in memory: a stream changes its level seldom


@dataclass(frozen=True, slots=True)
class EncodedSilence:
    """Activations in an input of silence.

    Attributes:
        layers: Keys and values of each encoder layer, (heads, frames, width of a head).
        output: (frames, width) after the last layer.
        memory: Keys and values of ``output`` in the cross-attention of the decoder.
    """

    layers: Sequence[tuple[Tensor, Tensor]]
    output: Tensor
    memory: CrossMemory


class SilenceCache:
    """Encodes the beginnings of inputs, and has the rest of each encoded already.

    Args:
        encoder: ``WhisperEncoder`` of Transformers.
        convolve: Returns the hidden states (frames, width) of log-mel frames (2 x frames, bins).
        project: Returns the cross-attention keys and values of an encoder output (frames, width).
    """

    def __init__(
        self,
        encoder: Any,
        convolve: Callable[[Tensor], Tensor],
        project: Callable[[Tensor], CrossMemory],
    ) -> None:
        self._encoder = encoder
        self._convolve = convolve
        self._project = project
        self._silences: dict[int, EncodedSilence] = {}  # by level, the newest last

    def encode(self, features: Tensor, frames: Frames) -> tuple[Tensor, KnownFrames | None]:
        """Encode an input.

        Args:
            features: (2 x whole input, bins) log-mel frames; silence follows the first ``frames``.
            frames: Number of frames that pass through the layers.

        Returns:
            Output (whole input, width) of the encoder, and its frames of silence, if any.
        """
        if 2 * frames >= len(features):
            return self._output(self._convolve(features), None), None
        beginning = features[: 2 * frames + 2]  # the last convolved frame needs its neighbours
        hidden = self._convolve(beginning)[:frames]
        silence = self._silence(features[-1], len(features))
        output = torch.cat([self._output(hidden, silence), silence.output[frames:]])
        return output, KnownFrames(frames, silence.memory)

    def _silence(self, last: Tensor, length: int) -> EncodedSilence:
        """Return the activations of silence.

        Args:
            last: (bins,) log-mel frame of the silence; all bins have the floor of the spectrogram.
            length: Log-mel frames of a whole input.
        """
        level = round(float(last[0]) * LEVELS_PER_UNIT)
        silence = self._silences.pop(level, None)
        if silence is None:
            layers: list[tuple[Tensor, Tensor]] = []
            features = torch.full_like(last, level / LEVELS_PER_UNIT).expand(length, -1)
            output = self._output(self._convolve(features), None, layers)
            silence = EncodedSilence(layers, output, self._project(output))
        self._silences[level] = silence
        if len(self._silences) > KEPT_LEVELS:
            self._silences.pop(next(iter(self._silences)))
        return silence

    def _output(
        self,
        hidden: Tensor,
        silence: EncodedSilence | None,
        layers: list[tuple[Tensor, Tensor]] | None = None,
    ) -> Tensor:
        """Run the layers, as Transformers does in evaluation mode.

        Args:
            hidden: (frames, width) hidden states after the convolutions.
            silence: Silence after these frames, to which they attend.
            layers: Receives keys and values of each layer.
        """
        frames = len(hidden)
        for index, layer in enumerate(self._encoder.layers):
            attention = layer.self_attn
            normed = layer.self_attn_layer_norm(hidden)
            queries, keys, values = (
                project(normed).unflatten(-1, (attention.num_heads, -1)).transpose(0, 1)
                for project in (attention.q_proj, attention.k_proj, attention.v_proj)
            )
            if layers is not None:
                layers.append((keys, values))
            if silence is not None:
                after = silence.layers[index]
                keys = torch.cat([keys, after[0][:, frames:]], dim=1)
                values = torch.cat([values, after[1][:, frames:]], dim=1)
            attended = F.scaled_dot_product_attention(queries[None], keys[None], values[None])[0]
            hidden = hidden + attention.out_proj(attended.transpose(0, 1).flatten(1))
            inner = layer.fc1(layer.final_layer_norm(hidden))
            hidden = hidden + layer.fc2(layer.activation_fn(inner))
            if hidden.dtype == torch.float16:
                hidden = hidden.clamp(-LARGEST_FLOAT16, LARGEST_FLOAT16)
        output: Tensor = self._encoder.layer_norm(hidden)
        return output
