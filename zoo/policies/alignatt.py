"""AlignAtt: write until a token attends most to one of the newest source frames.

Papi et al. (2023), "AlignAtt: Using Attention-based Audio-Translation Alignments as a Guide for
Simultaneous Speech Translation".

AlignAtt4LLM (arXiv:2606.03967) adds rules on the attention *mass* of a token: the sum of its
weights on the accessible frames, which are all but the last ``frames``, and on the newest frames,
which are the last ``frames``. They need an alignment that is not normalised
(``normalisation: none``).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from zoo.base.errors import check_numbers
from zoo.base.types import Frames, Hypothesis
from zoo.policies.attention import AttentionGuided


@dataclass(kw_only=True, eq=False)
class AlignAtt(AttentionGuided):
    """Write up to the first token that attends most to one of the last source frames (section 3).

    Args:
        frames: Number of last source frames that stop writing (f in the paper), in frames of the
            backbone. A larger value waits longer.
        rewind: Write nothing if a token before the first one that stops writing attends more than
            this many frames before the previous token (SimulStreaming: 200 frames of 20 ms; later
            tokens are not generated there). None: alignments may go back.
        border_margin: Number of newest frames, from the oldest on, to which a token may attend most
            (AlignAtt4LLM: 1 source token). The masses are those without the margin. With as many
            frames as ``frames``, only ``min_source_mass`` stops writing.
        min_source_mass: Least mass on the accessible frames; a token with less stops writing
            (AlignAtt4LLM: 0 to 0.05). A larger value waits longer. 0: tokens need none.
        min_newest_mass: Least mass on the newest frames of a token that attends most to one of
            them; with less, it does not stop writing (released code of AlignAtt4LLM: 0.03). A
            larger value writes earlier. 0: each of these tokens stops writing.
        last_word: See :class:`AttentionGuided`.
        flush: See :class:`AttentionGuided`.

    Raises:
        ZooError: A number of frames or a mass is out of range.
    """

    frames: Frames
    rewind: Frames | None = None
    border_margin: Frames = 0
    min_source_mass: float = 0.0
    min_newest_mass: float = 0.0
    flush: bool = True

    def __post_init__(self) -> None:
        AttentionGuided.__post_init__(self)
        check_numbers("AlignAtt", least=1, frames=self.frames, rewind=self.rewind)
        check_numbers("AlignAtt", least=0, border_margin=self.border_margin)
        check_numbers(
            "AlignAtt",
            least=0,
            most=1,
            min_source_mass=self.min_source_mass,
            min_newest_mass=self.min_newest_mass,
        )

    def attends_to_newest(self, attention: Tensor, frames: Tensor) -> Tensor:
        """Mark tokens aligned to a newest frame, or with too little attention to the others."""
        frame = torch.arange(attention.shape[1], device=attention.device)
        end = frames[:, None]
        attended = attention.masked_fill(frame >= end, -torch.inf).argmax(dim=1)
        marked = attended >= frames - self.frames + self.border_margin
        if not self.min_source_mass and not self.min_newest_mass:
            return marked

        accessible = frame < end - self.frames
        source_mass = attention.masked_fill(~accessible, 0).sum(dim=1)
        newest_mass = attention.masked_fill(accessible | (frame >= end), 0).sum(dim=1)
        marked &= newest_mass >= self.min_newest_mass
        return marked | (source_mass < self.min_source_mass)

    def unstable(self, hypothesis: Hypothesis) -> Tensor:
        """Mark tokens that attend to the newest frames; see ``AttentionGuided.unstable``.

        If a token before the first marked one jumps back (``rewind``), all tokens are marked.
        """
        unstable = super().unstable(hypothesis)
        if self.rewind is not None:
            attended = hypothesis.attended_frames
            marked = unstable.nonzero()
            stable = int(marked[0]) if marked.numel() else len(unstable)
            begin = max(hypothesis.prefix_length - 1, 0)
            steps = attended[begin : hypothesis.prefix_length + stable].diff()
            unstable |= torch.any(steps < -self.rewind)
        return unstable
