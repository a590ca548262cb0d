"""Which examples a step has."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

from zoo.base.languages import language
from zoo.base.talks import Segment, Talk, Target, Word
from zoo.config import build, compose
from zoo.data.chain_of_thought import SpeechChainOfThought, SpeechChainOfThoughtConfig
from zoo.data.clips import ClipConfig, Clips
from zoo.data.excerpts import ExcerptConfig
from zoo.data.robust_segments import RobustSegment, RobustSegmentConfig
from zoo.data.sampling import Sampling, Stretches
from zoo.training.batches import StepBatches, StepLoader, schedules
from zoo.training.curriculum import Curriculum, Stage
from zoo.training.preparation import make_samplers

GERMAN = language("de")


class Shown:
    """An objective whose batches are the examples."""

    def batch(self, examples: Sequence[Any]) -> list[Any]:
        return list(examples)

    def tokens(self, batch: list[Any]) -> int:
        return len(batch)


STAGE = Stage(
    objective="shown",
    trains=[],
    steps=100,
    learning_rate=1,
    batch_seconds=16,
    chunks=[4, 8],
    multipliers=[1, 2],
)
TALK = Talk(
    "talk",
    Path("talk.wav"),
    60.0,
    "en",
    tuple(Segment(second, 2.5, "hello") for second in range(1, 60, 4)),
)


def batches(*, utterances: float = 0.0, rank: int = 0, parts: int = 1, ranks: int = 1) -> Any:
    config = RobustSegmentConfig(utterances=utterances)
    sampler = config.sampler(
        [TALK], target=GERMAN, chunk_seconds=1.0, stretches=Stretches((4, 8), (1, 2))
    )
    curriculum = Curriculum({"only": STAGE})
    given: Any = {"shown": Shown()}
    by_stage = schedules({"only": sampler}, curriculum, seed=3, batches=ranks * parts)
    return StepBatches(by_stage, curriculum, given, rank=rank, batches_per_step=parts)


def test_two_parts_on_one_rank_are_those_of_two_ranks() -> None:
    one = batches(parts=2, utterances=0.5)
    ranks = [batches(rank=rank, ranks=2, utterances=0.5) for rank in (0, 1)]
    drawn = [one[item] for item in range(40)]
    assert drawn == [ranks[part][step] for step in range(20) for part in (0, 1)]
    assert drawn[0] != drawn[1]


def test_a_share_of_the_steps_has_single_utterances() -> None:
    mixed = batches(utterances=0.3)
    seen = [mixed[step].content for step in range(100)]
    single = [step for step in range(100) if seen[step][0].talk.name != "talk"]
    assert 15 <= len(single) <= 45
    lengths = {segment.chunks for step in single for segment in seen[step]}
    assert lengths <= {3, 4}  # of 2.5 s, blocks of one or two


@pytest.mark.parametrize("step", [0, 7])
def test_a_step_is_drawn_alike_every_time(step: int) -> None:
    assert batches(utterances=0.5)[step] == batches(utterances=0.5)[step]


def test_a_batch_counts_its_tokens_examples_and_seconds() -> None:
    batch = batches()[0]
    assert batch.tokens == batch.examples == len(batch.content)
    assert batch.seconds == sum(segment.chunks for segment in batch.content)


def test_the_loader_counts_the_tokens_of_a_step() -> None:
    data = batches(parts=2)
    loader: Any = DataLoader(data, batch_size=None, sampler=range(8))
    loaded = list(StepLoader(loader, 2))
    assert [replace(batch, step_tokens=0) for batch in loaded] == [data[item] for item in range(8)]
    for first, second in zip(loaded[::2], loaded[1::2], strict=True):
        assert first.step_tokens == second.step_tokens == first.tokens + second.tokens


@pytest.mark.parametrize(
    "sampling",
    [ExcerptConfig(), SpeechChainOfThoughtConfig(), ClipConfig(count=12)],
    ids=lambda sampling: type(sampling).__name__,
)
def test_other_batches_are_drawn_alike_every_time_and_apart_for_every_rank(
    sampling: Sampling, tmp_path: Path
) -> None:
    segments = tuple(
        Segment(
            s,
            2.0,
            "one two",
            (Word("one", s, s + 1), Word("two", s + 1, s + 2)),
            {"de": translation},
        )
        for s in range(1, 60, 4)
        for translation in [Target("eins zwei", ("eins", "zwei"), ((0,), (1,)))]
    )
    talk = Talk("talk", Path("talk.wav"), 60.0, "en", segments)
    stage = Stage(objective="shown", trains=[], steps=9, learning_rate=1, batch_seconds=30)
    if isinstance(sampling, ClipConfig):
        sampler: Any = Clips([talk], GERMAN, sampling, cache=tmp_path)
    else:
        sampler = sampling.sampler([talk], target=GERMAN, chunk_seconds=0.64)

    def drawn(rank: int, **options: int) -> list[Any]:
        given: Any = {"shown": Shown()}
        curriculum = Curriculum({"only": replace(stage, **options)})
        by_stage = schedules({"only": sampler}, curriculum, seed=3, batches=2)
        batches = StepBatches(by_stage, curriculum, given, rank=rank)
        return [batches[step].content for step in range(9)]

    assert drawn(0) == drawn(0)
    assert drawn(0) != drawn(1)
    assert {len(batch) for batch in drawn(0, examples=4)} <= {1, 2}


def test_every_stage_has_its_own_sampler() -> None:
    """The first stage trains the encoder, later stages train on chains of thought."""
    config = compose(
        "train", ["experiment=streamuni_phi4_minitalks", "backbone.tokenizer=somewhere"]
    )
    settings = build(config.training)
    words = (Word("one", 1.0, 2.0), Word("two.", 2.0, 3.0))
    segments = (
        Segment(
            1.0,
            2.0,
            "one two.",
            words,
            {"de": Target("eins zwei.", ("eins", "zwei."), ((0,), (1,)))},
        ),
    )
    talks = [Talk("talk", Path("talk.wav"), 9.0, "en", segments)] * 2
    objective = settings.objectives["chain_of_thought"]
    objective.sampling = replace(objective.sampling, sentences=[1.0])
    samplers: Any = make_samplers(build(config.system), talks, settings)
    assert samplers["sentences"].config.max_seconds == 12
    assert samplers["segments"].config.max_seconds == 18
    shown: Any = dict.fromkeys(settings.objectives, Shown())
    by_stage = schedules(samplers, settings.curriculum, seed=0, batches=1)
    batches = StepBatches(by_stage, settings.curriculum, shown, rank=0)
    first, *later = [
        batches[step].content[0]
        for step in (0, settings.curriculum.stages[0].steps, settings.curriculum.steps - 1)
    ]
    assert isinstance(first, RobustSegment)
    assert first.chunk_seconds == 0.64
    assert all(isinstance(one, SpeechChainOfThought) for one in later)
