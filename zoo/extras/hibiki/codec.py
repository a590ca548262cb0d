"""Mimi, the codec of Hibiki, frame by frame, with its causal state outside of the network.

Transformers streams the encoder. Its decoder has no caches of convolutions, so that the loop over
the decoder's layers is here: convolutions keep the end of their input, and transposed ones the
end of their output, which the next frame adds to.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import MimiModel
from transformers.models.mimi.modeling_mimi import (
    MimiConv1d,
    MimiConv1dPaddingCache,
    MimiConvTranspose1d,
    MimiResnetBlock,
)

from zoo.base.errors import ZooError
from zoo.base.types import SAMPLE_RATE, Samples
from zoo.streaming.stages import stage

CODEC_RATE = 24_000  # samples per second of the codec
FRAME: Samples = 1280  # samples at 16 kHz of a frame of 80 ms
REACH = 32  # samples on both sides from which a resampled one is computed


@dataclass(slots=True, eq=False)
class CodecState:
    """What the codec keeps of one stream.

    Attributes:
        received: End of the source, for its resampling.
        spoken: End of the target speech, for its resampling.
        encoder: Ends of the inputs of the encoder's convolutions.
        decoder: The same of the decoder.
        overlaps: Ends of the outputs of the decoder's transposed convolutions, by their place.
        encoder_memory: Keys and values of the encoder.
        decoder_memory: Keys and values of the decoder.
    """

    received: Tensor
    spoken: Tensor
    encoder: MimiConv1dPaddingCache
    decoder: MimiConv1dPaddingCache
    overlaps: dict[int, Tensor] = field(default_factory=dict)
    encoder_memory: Any = None
    decoder_memory: Any = None


class Resampler(nn.Module):
    """Changes the sample rate by a ratio of small numbers, block by block.

    Output is late by ``REACH`` samples of the input (2 ms or less), so that no block waits for the
    next one.

    Args:
        before: Samples per second of the input.
        after: Samples per second of the output.
    """

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        divisor = math.gcd(before, after)
        self.block, outputs = before // divisor, after // divisor  # samples in and out
        cutoff = min(1.0, after / before)
        taps = torch.arange(2 * REACH + self.block, dtype=torch.float64)
        centres = REACH + torch.arange(outputs, dtype=torch.float64) * before / after
        distances = taps - centres[:, None]  # (outputs, taps)
        window = torch.cos(distances.clamp(-REACH, REACH) * math.pi / (2 * REACH)).square()
        kernel = cutoff * torch.sinc(cutoff * distances) * window
        self.register_buffer("kernel", kernel[:, None].float(), persistent=False)

    def forward(self, history: Tensor, samples: Tensor) -> tuple[Tensor, Tensor]:
        """Resample a block.

        Args:
            history: (2 REACH,) samples before the block.
            samples: (n,) samples, a multiple of ``block``.

        Returns:
            The history of the next block, and the resampled block.
        """
        joined = torch.cat([history, samples])
        blocks = F.conv1d(joined[None], self.kernel, stride=self.block)  # type: ignore[arg-type]
        return joined[-2 * REACH :], blocks.T.flatten()


class Codec(nn.Module):
    """A Mimi that codes one stream at a time.

    Args:
        network: Mimi.
        source: Number of codebooks of the source.
        target: Number of codebooks of the target speech.

    Raises:
        ZooError: The network has fewer codebooks, or frames of another duration.
    """

    def __init__(self, network: MimiModel, *, source: int, target: int) -> None:
        super().__init__()
        config = network.config
        frame = config.sampling_rate / config.frame_rate, config.sampling_rate
        if frame != (FRAME * CODEC_RATE / SAMPLE_RATE, CODEC_RATE):
            raise ZooError(
                f"The codec has {frame[0]:g} samples per frame at {frame[1]} Hz; Hibiki needs 1920 "
                f"at {CODEC_RATE} Hz."
            )
        if config.num_quantizers < max(source, target):
            raise ZooError(
                f"The codec has {config.num_quantizers} codebooks; this Hibiki needs "
                f"{max(source, target)}."
            )
        self.network: Any = network
        self.source = source
        self.to_codec = Resampler(SAMPLE_RATE, CODEC_RATE)
        self.from_codec = Resampler(CODEC_RATE, SAMPLE_RATE)
        for part in self._convolutions():  # those of the encoder are numbered by Transformers
            for index, convolution in enumerate(part):
                convolution.layer_idx = index

    def _convolutions(self) -> tuple[list[Any], list[Any]]:
        """Return the convolutions of encoder and decoder, in the order of their layers."""
        encoder, decoder = (
            [module for module in part.modules() if isinstance(module, MimiConv1d)]
            for part in (self.network.encoder, self.network.decoder)
        )
        return encoder, decoder

    def open(self) -> CodecState:
        """Return the state of a new stream."""
        encoder, decoder = (
            MimiConv1dPaddingCache(
                num_layers=len(part),
                per_layer_padding=[int(one.padding_total) for one in part],
                per_layer_padding_mode=[one.pad_mode for one in part],
                per_layer_in_channels=[one.in_channels for one in part],
            )
            for part in self._convolutions()
        )
        silence = self.to_codec.kernel.new_zeros(2 * REACH)  # type: ignore[operator]
        return CodecState(silence, silence, encoder, decoder)

    @stage("encoder")
    def encode(self, state: CodecState, samples: Tensor) -> Tensor:
        """Return the codes of whole frames.

        Args:
            state: State of the stream, which advances.
            samples: (frames x 1280,) at 16 kHz, at least one frame.

        Returns:
            (frames, codebooks) int64.
        """
        state.received, wave = self.to_codec(state.received, samples.to(state.received))
        output = self.network.encode(
            wave[None, None],
            num_quantizers=self.source,
            encoder_past_key_values=state.encoder_memory,
            padding_cache=state.encoder,
            use_streaming=True,
            return_dict=True,
        )
        state.encoder_memory = output.encoder_past_key_values
        codes: Tensor = output.audio_codes[0].T
        return codes

    @stage("synthesizer")
    def decode(self, state: CodecState, codes: Tensor) -> Tensor:
        """Return the speech of frames.

        Args:
            state: State of the stream, which advances.
            codes: (frames, codebooks) int64, at least one frame.

        Returns:
            (frames x 1280,) samples at 16 kHz.
        """
        decoder = self.network.decoder
        latents = self.network.quantizer.decode(codes.T[None])
        hidden = self._overlap(state, -1, decoder.upsample, latents)
        output = decoder.decoder_transformer(
            hidden.mT, past_key_values=state.decoder_memory, use_cache=True
        )
        state.decoder_memory = output.past_key_values
        hidden = output.last_hidden_state.mT
        for index, layer in enumerate(decoder.decoder_seanet.layers):
            if isinstance(layer, MimiConvTranspose1d):
                hidden = self._overlap(state, index, layer, hidden)
            elif isinstance(layer, MimiConv1d | MimiResnetBlock):
                hidden = layer(hidden, padding_cache=state.decoder)
            else:
                hidden = layer(hidden)
        wave: Tensor
        state.spoken, wave = self.from_codec(state.spoken, hidden[0, 0])
        return wave

    def _overlap(self, state: CodecState, place: int, layer: Any, hidden: Tensor) -> Tensor:
        """Apply a transposed convolution whose output the next frames add to."""
        output: Tensor = layer.conv(hidden)
        tail = layer.conv.kernel_size[0] - layer.conv.stride[0]
        if place in state.overlaps:
            output[..., :tail] += state.overlaps[place]
        bias = 0 if layer.conv.bias is None else layer.conv.bias[:, None]
        state.overlaps[place] = output[..., -tail:] - bias  # the next frame adds the bias
        return output[..., :-tail]
