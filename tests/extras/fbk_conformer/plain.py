"""FBK's Conformer for one utterance, restated from its equations on the weights of a checkpoint.

It shares no code with ``zoo``, uses the names of the checkpoint, and computes in float64.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


class PlainConformer:
    """Encoder output, next-token log-probabilities and cross-attention of one utterance."""

    def __init__(self, weights: Mapping[str, Tensor], arguments: Mapping[str, Any]) -> None:
        self.weights = {name: tensor.double() for name, tensor in weights.items()}
        self.width = arguments["encoder_embed_dim"]
        self.encoder_heads = arguments["encoder_attention_heads"]
        self.decoder_heads = arguments["decoder_attention_heads"]
        self.encoder_layers = arguments["encoder_layers"]
        self.decoder_layers = arguments["decoder_layers"]

    def linear(self, name: str, inputs: Tensor) -> Tensor:
        return F.linear(inputs, self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias"))

    def norm(self, name: str, inputs: Tensor) -> Tensor:
        centred = inputs - inputs.mean(dim=-1, keepdim=True)
        variance = centred.square().mean(dim=-1, keepdim=True)
        scaled = centred / (variance + 1e-5).sqrt()
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def convolve(self, name: str, inputs: Tensor, **options: int) -> Tensor:
        """inputs (frames, channels)."""
        weight, bias = self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias")
        padding = weight.shape[-1] // 2
        return F.conv1d(inputs.T[None], weight, bias, padding=padding, **options)[0].T

    def gated(self, inputs: Tensor) -> Tensor:
        values, gates = inputs.chunk(2, dim=-1)
        return values * gates.sigmoid()

    def encode(self, features: Tensor) -> Tensor:
        """Normalised features (n, bins) to (frames, width)."""
        hidden = features.double()
        for number in range(2):
            name = f"encoder.subsample.conv_layers.{number}"
            hidden = self.gated(self.convolve(name, hidden, stride=2))
        hidden = hidden * math.sqrt(self.width)
        for number in range(self.encoder_layers):
            layer = f"encoder.conformer_layers.{number}"
            hidden = hidden + 0.5 * self.feed_forward(f"{layer}.first_feed_forward", hidden)
            hidden = hidden + self.attend(f"{layer}.attention", hidden)
            hidden = hidden + self.convolution(f"{layer}.conv_module", hidden)
            hidden = hidden + 0.5 * self.feed_forward(f"{layer}.second_feed_forward", hidden)
            hidden = self.norm(f"{layer}.layernorm", hidden)
        return hidden

    def feed_forward(self, name: str, hidden: Tensor) -> Tensor:
        inner = self.linear(f"{name}.first_linear", self.norm(f"{name}.layernorm", hidden))
        return self.linear(f"{name}.second_linear", inner * inner.sigmoid())

    def convolution(self, name: str, hidden: Tensor) -> Tensor:
        hidden = self.convolve(
            f"{name}.first_pointwise_conv1d", self.norm(f"{name}.layernorm", hidden)
        )
        hidden = self.convolve(f"{name}.depthwise_conv1d", self.gated(hidden), groups=self.width)
        mean = self.weights[f"{name}.batchnorm.running_mean"]
        variance = self.weights[f"{name}.batchnorm.running_var"]
        hidden = (hidden - mean) / (variance + 1e-5).sqrt()
        weight, bias = (self.weights[f"{name}.batchnorm.{part}"] for part in ("weight", "bias"))
        hidden = hidden * weight + bias
        return self.convolve(f"{name}.second_pointwise_conv1d", hidden * hidden.sigmoid())

    def attend(self, name: str, hidden: Tensor) -> Tensor:
        """Relative attention, score by score.

        The position score of query i and key j is that of query i and position n - 1 - (i - j) for
        j <= i, 0 for j = i + 1, and that of query i + 1 and position j - i - 2 for later keys.
        """
        frames = len(hidden)
        normed = self.norm(f"{name}.layer_norm", hidden)
        name = f"{name}.attention"
        size = self.width // self.encoder_heads
        query, key, value = (
            self.linear(f"{name}.{part}_proj", normed).view(frames, self.encoder_heads, size)
            for part in ("query", "key", "value")
        )
        sinusoids = torch.zeros(frames, self.width)
        for frame in range(frames):
            for even in range(0, self.width, 2):
                angle = frame * math.exp(-even * math.log(10_000) / self.width)
                sinusoids[frame, even : even + 2] = torch.tensor([math.sin(angle), math.cos(angle)])
        positions = self.linear(f"{name}.pos_proj", sinusoids.double())
        positions = positions.view(frames, self.encoder_heads, size)
        attended = torch.zeros(frames, self.encoder_heads, size, dtype=torch.float64)
        for head in range(self.encoder_heads):
            u, v = (self.weights[f"{name}.{bias}"][head] for bias in ("u_bias", "v_bias"))
            scores = torch.zeros(frames, frames, dtype=torch.float64)
            for i in range(frames):
                for j in range(frames):
                    score = (query[i, head] + u) @ key[j, head]
                    if j <= i:
                        score += (query[i, head] + v) @ positions[frames - 1 - (i - j), head]
                    elif j > i + 1:
                        score += (query[i + 1, head] + v) @ positions[j - i - 2, head]
                    scores[i, j] = score / math.sqrt(self.width)
            attended[:, head] = scores.softmax(dim=-1) @ value[:, head]
        return self.linear(f"{name}.out_proj", attended.flatten(1))

    def decode(self, ids: list[int], memory: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """Log-probabilities after each id (n, vocabulary), and mean weights of a layer's heads."""
        half = self.width // 2
        frequencies = torch.exp(torch.arange(half) * (-math.log(10_000) / (half - 1)))
        angles = torch.arange(2, 2 + len(ids))[:, None] * frequencies  # 1 is the padding's
        positions = torch.cat([angles.sin(), angles.cos()], dim=1).double()
        embedded = self.weights["decoder.embed_tokens.weight"][ids]
        hidden = math.sqrt(self.width) * embedded + positions
        causal = torch.ones(len(ids), len(ids), dtype=torch.bool).tril()
        recorded = torch.zeros(0)
        for number in range(self.decoder_layers):
            name = f"decoder.layers.{number}"
            normed = self.norm(f"{name}.self_attn_layer_norm", hidden)
            hidden = hidden + self.cross(f"{name}.self_attn", normed, normed, causal)[0]
            normed = self.norm(f"{name}.encoder_attn_layer_norm", hidden)
            attended, weights = self.cross(f"{name}.encoder_attn", normed, memory, None)
            hidden = hidden + attended
            if number == layer:
                recorded = weights
            normed = self.norm(f"{name}.final_layer_norm", hidden)
            hidden = hidden + self.linear(
                f"{name}.fc2", self.linear(f"{name}.fc1", normed).clamp(min=0)
            )
        hidden = self.norm("decoder.layer_norm", hidden)
        return self.linear("decoder.output_projection", hidden).log_softmax(dim=-1), recorded

    def cross(
        self, name: str, hidden: Tensor, memory: Tensor, visible: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Output (n, width) of an attention, and the mean over its heads of the weights."""
        query = self.linear(f"{name}.q_proj", hidden).chunk(self.decoder_heads, dim=-1)
        key = self.linear(f"{name}.k_proj", memory).chunk(self.decoder_heads, dim=-1)
        value = self.linear(f"{name}.v_proj", memory).chunk(self.decoder_heads, dim=-1)
        outputs, weights = [], []
        for q, k, v in zip(query, key, value, strict=True):
            scores = q @ k.T / math.sqrt(self.width // self.decoder_heads)
            if visible is not None:
                scores = scores.masked_fill(~visible, -math.inf)
            weights.append(scores.softmax(dim=-1))
            outputs.append(weights[-1] @ v)
        return self.linear(f"{name}.out_proj", torch.cat(outputs, dim=-1)), sum(weights) / len(
            weights
        )
