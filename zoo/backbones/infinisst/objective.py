"""Training objective of InfiniSST: cross-entropy on the turns of dialogues (sections 3.3, 3.4)."""

from collections.abc import Sequence

from torch import Tensor

from zoo.backbones.architectures.speech_llm.data import Batch, collate
from zoo.backbones.architectures.speech_llm.prompt import DialoguePrompt, Trajectory
from zoo.backbones.base import Backbone
from zoo.backbones.decoding.teacher_forcing import token_accuracy
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.backbones.objective import Objective
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.talks import Talk
from zoo.data.robust_segments import (
    RobustSegment,
    RobustSegmentConfig,
    RobustSegmentSampler,
    check_turns,
)
from zoo.data.sampling import Sampler


class Trajectories(Objective):
    """Training objective of InfiniSST: multi-turn dialogues of speech and translation.

    An example is a robust segment: consecutive chunks of a whole talk, silence included (section
    3.3). The dialogue of a robust segment is its trajectory. Each user turn has m chunks of speech,
    and the assistant turn has the target words that are aligned with the speech so far and that no
    earlier turn emitted. For a turn without target words the label is the end-of-turn id alone.

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
        self._prompt: DialoguePrompt | None = None

    def prepare(
        self, talks: Sequence[Talk], backbone: Backbone, samplers: Sequence[Sampler] = ()
    ) -> None:
        """Store the backbone's prompt and check the talks.

        Args:
            talks: The training talks.
            backbone: The backbone, loaded.
            samplers: Samplers of the stages that have this objective.

        Raises:
            ZooError: The backbone is not InfiniSST, a talk has no word alignments, or the tokenizer
                has no latency token for a multiplier that the samplers draw.
        """
        if not isinstance(backbone, InfiniSST):
            raise ZooError(
                f"The trajectories objective trains InfiniSST, not {type(backbone).__name__}."
            )
        check_turns(talks, self.source, self.target, noun="InfiniSST")
        for corpus in (corpus for sampler in samplers for corpus in sampler.parts):
            segment_sampler = corpus.window(0)
            assert isinstance(segment_sampler, RobustSegmentSampler)
            for multiplier in sorted(segment_sampler.multipliers):
                # Called to raise an error if the latency token is missing.
                backbone.prompt.instruction(
                    source=self.source, target=self.target, multiplier=multiplier
                )
        self._prompt = backbone.prompt

    def batch(self, examples: Sequence[RobustSegment]) -> Batch:
        """Collate the dialogues of robust segments; shorter dialogues are padded."""
        assert self._prompt is not None, "prepare comes first"
        prompt = self._prompt
        padding = prompt.tokenizer.pad_token_id

        return collate(
            [
                segment.samples() if segment.frames is None else segment.frames
                for segment in examples
            ],
            [self._dialogue(prompt, segment) for segment in examples],
            multiplier=examples[0].multiplier,
            padding=prompt.end_of_turn if padding is None else padding,
        )

    def losses(self, backbone: Backbone, batch: Batch) -> dict[str, Tensor]:
        """Return ``loss`` and ``token_accuracy``, scalars over the labelled tokens."""
        output = backbone(batch)
        accuracy = token_accuracy(output.logits, output.targets)
        return {"loss": output.loss, "token_accuracy": accuracy}

    def _dialogue(self, prompt: DialoguePrompt, segment: RobustSegment) -> Trajectory:
        """Return the token ids and the labels of a robust segment's dialogue."""
        multiplier = segment.multiplier  # chunks per turn
        chunk_counts = [  # the last turn may have fewer chunks
            min(multiplier, segment.chunks - first_chunk)
            for first_chunk in range(0, segment.chunks, multiplier)
        ]
        return prompt.trajectory(
            [self.target.join(words) for words in segment.merged_turns(self.target.code)],
            chunks=chunk_counts,
            source=self.source,
            target=self.target,
            multiplier=multiplier,
        )
