"""Which stretches a step sees."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from zoo.config import build, compose
from zoo.data.chain_of_thought import Thought, ThoughtConfig, Thoughts
from zoo.data.clips import ClipConfig, Clips
from zoo.data.excerpts import ExcerptConfig, Excerpts
from zoo.data.robust_segments import RobustSegments, Stretch
from zoo.data.talks import Segment, Talk, Target, Word
from zoo.languages import language
from zoo.training.batches import (
    ClipSupply,
    ExcerptSupply,
    StepBatches,
    Stretches,
    StretchSupply,
    ThoughtSupply,
)
from zoo.training.curriculum import Curriculum, Stage
from zoo.training.run import supplies, thought_supplies


class Shown:
    """An objective that shows what it was given."""

    def batch(
        self, stretches: list[Stretch], multiplier: int, frames: None = None
    ) -> tuple[list[Stretch], int]:
        assert frames is None
        return stretches, multiplier


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


def batches(*, rank: int = 0, parts: int = 1, **shares: float) -> Any:
    sources = [
        Stretches(RobustSegments([TALK], chunk_seconds=1.0, robust=name == "robust"), share)
        for name, share in shares.items()
    ]
    curriculum = Curriculum({"only": STAGE})
    given: Any = {"shown": Shown()}
    return StepBatches(
        {"only": StretchSupply(sources)}, curriculum, given, seed=3, rank=rank, parts=parts
    )


def test_two_parts_on_one_rank_are_those_of_two_ranks() -> None:
    one = batches(parts=2, robust=0.5, utterances=0.5)
    ranks = [batches(rank=rank, robust=0.5, utterances=0.5) for rank in (0, 1)]
    drawn = [one[item] for item in range(40)]
    assert drawn == [ranks[part][step] for step in range(20) for part in (0, 1)]
    assert drawn[0] != drawn[1]


def test_a_share_of_the_steps_sees_single_utterances() -> None:
    mixed, robust = batches(robust=0.7, utterances=0.3), batches(robust=1.0)
    seen = [mixed[step][0] for step in range(100)]
    single = [step for step in range(100) if seen[step][0].talk.name != "talk"]
    assert 20 <= len(single) <= 40
    assert {stretch.chunks for step in single for stretch in seen[step]} <= {
        3,
        4,
    }  # of 2.5 s, blocks of one or two
    for step in set(range(100)) - set(single):
        assert seen[step] == robust[step][0]


@pytest.mark.parametrize("step", [0, 7])
def test_a_step_is_drawn_alike_every_time(step: int) -> None:
    assert batches(robust=0.5, utterances=0.5)[step] == batches(robust=0.5, utterances=0.5)[step]


@pytest.mark.parametrize("kind", ["excerpts", "thoughts", "clips"])
def test_other_batches_are_drawn_alike_every_time_and_apart_for_every_rank(
    kind: str, tmp_path: Path
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
    curriculum = Curriculum(
        {"only": Stage(objective="shown", trains=[], steps=9, learning_rate=1, batch_seconds=30)}
    )

    german = language("de")
    supply: Any = {
        "excerpts": lambda: ExcerptSupply(Excerpts([talk], german, ExcerptConfig())),
        "thoughts": lambda: ThoughtSupply(
            Thoughts([talk], german, ThoughtConfig(), chunk_seconds=0.64)
        ),
        "clips": lambda: ClipSupply(Clips([talk], german, ClipConfig(count=12), cache=tmp_path)),
    }[kind]()

    def drawn(rank: int) -> list[Any]:
        given: Any = {"shown": Shown()}
        batches = StepBatches({"only": supply}, curriculum, given, seed=3, rank=rank)
        return [batches[step] for step in range(9)]

    assert drawn(0) == drawn(0)
    assert drawn(0) != drawn(1)
    assert all(multiplier == 1 for _, multiplier in drawn(0))


def test_every_stage_has_its_own_supply() -> None:
    """Encoder first, then chains of thought: one curriculum, one place per global step."""
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
    settings = replace(settings, thoughts=replace(settings.thoughts, sentences=[1.0]))
    system = build(config.system)
    made = thought_supplies(system, talks, settings) | supplies(
        system, talks, settings, torch.device("cpu")
    )
    assert [stage.name for stage in settings.stages(Thought)] == ["sentences", "segments"]
    assert [type(made[name]) for name in ("hearing", "sentences", "segments")] == [
        StretchSupply,
        ThoughtSupply,
        ThoughtSupply,
    ]
    assert made["sentences"].thoughts.config.max_seconds == 12
    assert made["segments"].thoughts.config.max_seconds == 18
    shown: Any = dict.fromkeys(settings.objectives, Shown())
    batches = StepBatches(made, settings.curriculum, shown, seed=0, rank=0)
    first, *later = [
        batches[step][0][0]
        for step in (0, settings.curriculum.stages[0].steps, settings.curriculum.steps - 1)
    ]
    assert isinstance(first, Stretch)
    assert first.chunk_seconds == 0.64
    assert all(isinstance(one, Thought) for one in later)
