"""Training objective of dialogues: cross-entropy on turns of words and of ``<wait>``."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from zoo.backbones.base import Backbone
from zoo.backbones.common.dialogue.data import DialogueBatch, DialogueCollator, Stream
from zoo.backbones.common.dialogue.dialogue import Dialogue
from zoo.backbones.objective import Objective
from zoo.data.robust_segments import RobustSegment, RobustSegmentConfig, check_turns
from zoo.data.sampling import Sampler
from zoo.errors import ZooError
from zoo.languages import language
from zoo.talks import Talk


class Dialogues(Objective):
    """Training objective of ``Dialogue``: the turns of robust segments.

    The words of a turn are the target words that are aligned with the speech so far and that no
    earlier turn emitted, as in InfiniSST (section 3.3); a turn without words is ``<wait>``. The
    last turn of an example ends its source: without words, it is the end token alone. An example
    with more turns than ``DialogueBound`` keeps is divided into dialogues as a stream is.

    Args:
        source_language: Code of the language of the speech.
        target_language: Code of the language of the translation.
        sampling: Options of the robust segments to train on.
    """

    def __init__(
        self,
        *,
        source_language: str,
        target_language: str,
        sampling: RobustSegmentConfig = RobustSegmentConfig(),  # noqa: B008 (frozen)
    ) -> None:
        super().__init__(sampling)
        self.source = language(source_language)
        self.target = language(target_language)
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
        return Stream(
            waves=segment.samples().split(segment.multiplier * segment.chunk_samples),
            words=[self.target.join(words) for words in segment.merged_turns(self.target.code)],
            source=self.source,
            target=self.target,
        )
