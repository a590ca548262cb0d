"""Training objective of dialogues: cross-entropy on turns of words and of ``<wait>``."""

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np
from torch import Tensor

from zoo.backbones.architectures.dialogue.data import DialogueBatch, DialogueCollator, Stream
from zoo.backbones.architectures.dialogue.dialogue import Dialogue
from zoo.backbones.base import Backbone
from zoo.backbones.objective import Objective
from zoo.base.errors import ZooError, check_numbers
from zoo.base.languages import language
from zoo.base.talks import Talk
from zoo.base.types import SAMPLE_RATE, Seconds
from zoo.data.robust_segments import RobustSegment, RobustSegmentConfig, check_turns
from zoo.data.sampling import Sampler
from zoo.data.trajectories import words_until


class Dialogues(Objective):
    """Training objective of ``Dialogue``: the turns of robust segments.

    The words of a turn are the target words that are aligned with the speech so far and that no
    earlier turn emitted, as in InfiniSST (section 3.3); a turn without words is ``<wait>``. The
    last turn of an example ends its source: it has all words until then, and without words, it is
    the end token alone. An example with more turns than ``DialogueBound`` keeps is divided into
    dialogues as a stream is.

    A turn may leave the newest words to the next turn: the source words of a word ended at least a
    delay before the turn ended. Each turn draws its delay, so that the model learns to go on from
    every text that it may have emitted, and ``<wait>`` becomes less likely the longer ago a word
    ended, which gives ``EmissionControls.wait_bias`` an effect.

    Args:
        source_language: Code of the language of the speech.
        target_language: Code of the language of the translation.
        delay: Shortest and longest delay in seconds, uniformly distributed.
        sampling: Options of the robust segments to train on.
    """

    def __init__(
        self,
        *,
        source_language: str,
        target_language: str,
        delay: tuple[Seconds, Seconds] = (0.0, 0.0),
        sampling: RobustSegmentConfig = RobustSegmentConfig(),  # noqa: B008 (frozen)
    ) -> None:
        super().__init__(sampling)
        self.source = language(source_language)
        self.target = language(target_language)
        shortest, longest = delay
        check_numbers("Dialogues", least=0, delay=shortest)
        check_numbers("Dialogues", least=shortest, delay=longest)
        self.delay = delay
        self._collate: DialogueCollator | None = None

    def prepare(
        self, talks: Sequence[Talk], backbone: Backbone, samplers: Sequence[Sampler] = ()
    ) -> None:
        """Store the backbone's collator and check the talks.

        Args:
            talks: The training talks.
            backbone: The backbone, loaded.
            samplers: Samplers of the stages that have this objective; not used.

        Raises:
            ZooError: The backbone has no dialogue, or a talk has another direction or no word
                alignments.
        """
        if not isinstance(backbone, Dialogue):
            raise ZooError(
                f"The dialogues objective trains backbones that take turns with <wait>, not "
                f"{type(backbone).__name__}."
            )
        check_turns(talks, self.source, self.target, noun="A dialogue")
        self._collate = backbone.collator()

    def batch(self, examples: Sequence[RobustSegment]) -> DialogueBatch:
        """Collate the dialogues of robust segments."""
        assert self._collate is not None, "prepare comes first"
        return self._collate([self._stream(segment) for segment in examples])

    def losses(self, backbone: Backbone, batch: Any) -> dict[str, Tensor]:
        """Return ``loss`` and ``token_accuracy``, scalars over the labelled tokens."""
        return dict(backbone(batch))

    def _stream(self, segment: RobustSegment) -> Stream:
        """Divide a robust segment into turns of its latency multiplier."""
        waves = segment.samples().split(segment.multiplier * segment.chunk_samples)
        ends = np.cumsum([wave.numel() / SAMPLE_RATE for wave in waves])
        # An example has the same delays whenever and wherever it is made.
        example = f"{segment.talk.name} {segment.start} {segment.multiplier}"
        delays = np.random.default_rng(crc32(example.encode())).uniform(*self.delay, len(waves))
        delays[-1] = 0.0
        limits = segment.start + np.maximum.accumulate(ends - delays)
        turns = words_until(
            segment.segments, self.target.code, start=segment.start, limits=limits.tolist()
        )
        return Stream(
            waves=waves,
            words=[self.target.join(words) for words in turns],
            source=self.source,
            target=self.target,
        )
