"""Cross-entropy on the turns of trajectories (InfiniSST, sections 3.3 and 3.4), empty turns included."""

from collections.abc import Sequence

from torch import Tensor

from zoo.backbones.base import Backbone
from zoo.backbones.common.speech_llm.data import Batch, collate
from zoo.backbones.common.speech_llm.prompt import Prompt, Trajectory
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.data.robust_segments import Stretch
from zoo.data.talks import Talk
from zoo.data.trajectories import emission_times, merged
from zoo.errors import ZooError
from zoo.languages import language
from zoo.objectives.base import Objective


class Trajectories(Objective):
    """Multi-turn dialogues of speech chunks and the words they allow; m chunks merged per turn."""

    def __init__(self, *, source_language: str, target_language: str) -> None:
        super().__init__()
        self.source = language(source_language)
        self.target = language(target_language)
        self._prompt: Prompt | None = None

    def prepare(self, talks: Sequence[Talk], backbone: Backbone) -> None:
        """Take the prompt from the backbone. Raises ZooError when it does not take turns or talks are not aligned."""
        if not isinstance(backbone, InfiniSST):
            raise ZooError(
                f"The trajectories objective trains InfiniSST backbones, not {type(backbone).__name__}."
            )
        for segment in (segment for talk in talks for segment in talk.segments):
            emission_times(
                segment, self.target.code
            )  # told here, not by a data worker in the middle of the training
        self._prompt = backbone.prompt

    def batch(
        self, stretches: Sequence[Stretch], multiplier: int, frames: Sequence[Tensor] | None = None
    ) -> Batch:
        """Dialogues of stretches; shorter ones are padded."""
        assert self._prompt is not None, "prepare comes first"
        prompt = self._prompt
        dialogues = [self._dialogue(prompt, stretch, multiplier) for stretch in stretches]
        padding = (
            prompt.tokenizer.pad_token_id
            if prompt.tokenizer.pad_token_id is not None
            else prompt.end_of_turn
        )
        heard = frames if frames is not None else [stretch.samples() for stretch in stretches]
        return collate(heard, dialogues, multiplier=multiplier, padding=padding)

    def losses(self, backbone: Backbone, batch: Batch) -> dict[str, Tensor]:
        """``loss`` and ``token_accuracy`` over the labelled tokens."""
        output = backbone(batch)
        accuracy = (output.logits.argmax(-1) == output.targets).float().mean()
        return {"loss": output.loss, "token_accuracy": accuracy}

    def _dialogue(self, prompt: Prompt, stretch: Stretch, multiplier: int) -> Trajectory:
        turns = [
            self.target.join(words) for words in merged(stretch.turns(self.target.code), multiplier)
        ]
        sizes = [
            min(multiplier, stretch.chunks - first)
            for first in range(0, stretch.chunks, multiplier)
        ]
        return prompt.trajectory(
            turns, chunks=sizes, source=self.source, target=self.target, multiplier=multiplier
        )
