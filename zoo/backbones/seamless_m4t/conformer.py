"""Faster modules of SeamlessM4T's conformer for inference on a CPU.

They compute what the modules of Transformers compute, with the same parameters: an attention
projects the relative positions once instead of at every call and does not copy the scores that it
shifts; a convolution keeps the layout of the linear layers. Training, padded batches, mixed
precision and GPUs use the modules of Transformers.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.models.seamless_m4t.modeling_seamless_m4t import (
    SeamlessM4TConformerConvolutionModule,
    SeamlessM4TConformerSelfAttention,
)

from zoo.base.machine.weight_layout import PackedWeight, can_pack, state_of

PACKED = "packed"  # attribute of a convolution
QUERIES = 64  # whose scores are computed at once: they stay in the processor's cache


def speed_up(encoder: Any) -> None:
    """Use the faster modules in a conformer, in place. Names and parameters stay the same.

    Args:
        encoder: SeamlessM4TSpeechEncoder of Transformers. Other classes, such as version 2, are
            unchanged.
    """
    for module in encoder.modules():
        kind = type(module)
        if kind is SeamlessM4TConformerConvolutionModule:
            module.__class__ = FastConvolution
        relative = getattr(module, "position_embeddings_type", None) == "relative"
        if kind is SeamlessM4TConformerSelfAttention and relative:
            module.__class__ = FastAttention


def _position_scores(queries: Tensor, projected: Tensor, first: int) -> Tensor:
    """Compute the attention scores of some queries by relative position.

    Args:
        queries: (batch, heads, n, head size) queries of the frames from ``first`` on.
        projected: (heads, head size, 2 x frames - 1) projected distances, the largest one first.
        first: Index of the first frame.

    Returns:
        (batch, heads, n, frames) scores.
    """
    batch, heads, count, _ = queries.shape
    frames = (projected.shape[2] + 1) // 2
    last = first + count
    # Query i and key j have the distance at index frames - 1 - i + j
    scores = queries @ projected[..., frames - last : 2 * frames - 1 - first]
    width = scores.shape[3]  # frames + n - 1
    steps = (heads * count * width, count * width, width - 1, 1)
    return scores.as_strided((batch, heads, count, frames), steps, count - 1)


def _pointwise(convolution: Any, hidden: Tensor) -> Tensor:
    """Apply a convolution of kernel size 1 to hidden states (batch, frames, width)."""
    packed: PackedWeight | None = getattr(convolution, PACKED, None)
    if packed is not None:
        return packed.product(hidden, None)
    return F.linear(hidden, convolution.weight[:, :, 0])


def _applies(hidden: Tensor, mask: Tensor | None) -> bool:
    """Whether a faster module may process hidden states with a mask."""
    return (
        mask is None
        and hidden.device.type == "cpu"
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
    )


class FastConvolution(SeamlessM4TConformerConvolutionModule):
    """The convolution module, with batch normalisation inside the depthwise convolution."""

    def pack(self) -> None:
        """Give the pointwise convolutions packed copies of their weights, see ``weight_layout``."""
        for convolution in (self.pointwise_conv1, self.pointwise_conv2):
            weight = convolution.weight[:, :, 0]
            if not hasattr(convolution, PACKED) and can_pack(weight):
                setattr(convolution, PACKED, PackedWeight(weight))

    def forward(self, hidden_states: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Transform hidden states (batch, frames, width)."""
        norm: Any = self.batch_norm
        if norm.training or not _applies(hidden_states, attention_mask):
            forward: Any = super().forward
            return torch.as_tensor(forward(hidden_states, attention_mask=attention_mask))
        scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
        kernel = self.depthwise_conv.weight * scale[:, None, None]  # (width, 1, size)
        shift = norm.bias - norm.running_mean * scale

        doubled = _pointwise(self.pointwise_conv1, self.layer_norm(hidden_states))
        gated = F.glu(doubled, dim=2)
        # As an image of height 1 with the channels last, the layout that it already has
        image = gated.transpose(1, 2)[:, :, None]
        padding = (0, (kernel.shape[2] - 1) // 2)
        groups = kernel.shape[0]
        mixed = F.conv2d(image, kernel[:, :, None], shift, padding=padding, groups=groups)
        activated = self.activation(mixed[:, :, 0].transpose(1, 2))
        return _pointwise(self.pointwise_conv2, activated)


class FastAttention(SeamlessM4TConformerSelfAttention):
    """The self-attention with relative positions, which are projected once."""

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        relative_position_embeddings: Tensor | None = None,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Transform hidden states; for the arguments see the class of Transformers.

        Returns:
            Hidden states (batch, frames, width), and None instead of attention weights.
        """
        positions = relative_position_embeddings
        if positions is None or not _applies(hidden_states, attention_mask):
            output: tuple[Tensor, Tensor | None] = super().forward(
                hidden_states,
                attention_mask=attention_mask,
                relative_position_embeddings=positions,
                **options,
            )
            return output
        query = self._split(self.linear_q(hidden_states))
        key = self._split(self.linear_k(hidden_states))
        value = self._split(self.linear_v(hidden_states))

        projected = self._projected(positions)
        by_content = (query + self.pos_bias_u[:, None]).split(QUERIES, dim=2)
        by_position = ((query + self.pos_bias_v[:, None]) * self.scaling).split(QUERIES, dim=2)

        attended, first = [], 0
        for content, position in zip(by_content, by_position, strict=True):
            bias = _position_scores(position, projected, first)
            attended.append(
                F.scaled_dot_product_attention(
                    content, key, value, attn_mask=bias, scale=self.scaling
                )
            )
            first += content.shape[2]
        return self.linear_out(torch.cat(attended, dim=2).transpose(1, 2).flatten(2)), None

    def _split(self, hidden: Tensor) -> Tensor:
        """Reshape (batch, frames, width) to (batch, heads, frames, head size)."""
        heads: Tensor = hidden.unflatten(2, (self.num_heads, -1))
        return heads.transpose(1, 2)

    def _projected(self, positions: Tensor) -> Tensor:
        """Project relative positions, or take the projection of an earlier call.

        Args:
            positions: (1, distances, width), from the largest distance to the smallest. The
                embedding of a distance does not depend on the number of distances.

        Returns:
            (heads, head size, distances).
        """
        weight = self.linear_pos.weight
        owner = (*state_of(weight), positions.dtype)
        known_owner, known = getattr(self, "_known", (None, None))
        distances = positions.shape[1]
        if known is None or known_owner != owner or known.shape[2] < distances:
            known = self._split(self.linear_pos(positions))[0].transpose(1, 2).contiguous()
            self._known = (owner, known)
        first = (known.shape[2] - distances) // 2
        return known[:, :, first : first + distances]
