"""Cross-entropy on the turns of trajectories (InfiniSST, sections 3.3 and 3.4)."""

from collections.abc import Sequence

from torch import Tensor

from zoo.backbones.base import Backbone
from zoo.backbones.common.speech_llm.data import Batch, collate
from zoo.backbones.common.speech_llm.prompt import Prompt, Trajectory
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.data.robust_segments import RobustSegment, RobustSegmentConfig
from zoo.data.sampling import Sampler
from zoo.data.talks import Talk
from zoo.data.trajectories import emission_times, merged
from zoo.errors import ZooError
from zoo.languages import language
from zoo.objectives.base import Objective


class Trajectories(Objective):
    """Multi-turn dialogues of speech chunks and the words they allow; m chunks are one turn.

    Turns without words are learned too: the model answers with the end of its turn.

    Args:
        source_language: Code of the language that is spoken.
        target_language: Code of the language of the translation.
        sampling: The robust segments to train on.
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
        self._prompt: Prompt | None = None

    def prepare(
        self, talks: Sequence[Talk], backbone: Backbone, samplers: Sequence[Sampler] = ()
    ) -> None:
        """Take the backbone's prompt; ZooError for another family and unaligned talks."""
        if not isinstance(backbone, InfiniSST):
            raise ZooError(
                f"The trajectories objective trains InfiniSST, not {type(backbone).__name__}."
            )
        for segment in (segment for talk in talks for segment in talk.segments):
            emission_times(segment, self.target.code)  # raises here, not in a data worker
        self._prompt = backbone.prompt

    def batch(self, examples: Sequence[RobustSegment]) -> Batch:
        """Dialogues of the segments; shorter ones are padded."""
        assert self._prompt is not None, "prepare comes first"
        prompt = self._prompt
        padding = prompt.tokenizer.pad_token_id

        return collate(
            [one.samples() if one.frames is None else one.frames for one in examples],
            [self._dialogue(prompt, one) for one in examples],
            multiplier=examples[0].multiplier,
            padding=prompt.end_of_turn if padding is None else padding,
        )

    def losses(self, backbone: Backbone, batch: Batch) -> dict[str, Tensor]:
        """``loss`` and ``token_accuracy`` over the labelled tokens."""
        output = backbone(batch)
        accuracy = (output.logits.argmax(-1) == output.targets).float().mean()
        return {"loss": output.loss, "token_accuracy": accuracy}

    def _dialogue(self, prompt: Prompt, segment: RobustSegment) -> Trajectory:
        m = segment.multiplier
        turns = merged(segment.turns(self.target.code), m)
        return prompt.trajectory(
            [self.target.join(words) for words in turns],
            chunks=[min(m, segment.chunks - first) for first in range(0, segment.chunks, m)],
            source=self.source,
            target=self.target,
            multiplier=m,
        )
