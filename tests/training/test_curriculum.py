"""Stages and learning rates are functions of the step alone."""

import numpy as np
import pytest

from zoo.base.errors import ZooError
from zoo.training.curriculum import Curriculum, Stage


def stage(steps: int, **options: object) -> Stage:
    given = {
        "warmup_steps": 10,
        "batch_seconds": 24.0,
        "chunks": [4, 8],
        "multipliers": [1, 3],
        "learning_rate": 1.0,
    }
    return Stage(objective="o", trains=["encoder"], steps=steps, **(given | options))  # type: ignore[arg-type]


def test_the_global_step_finds_its_stage() -> None:
    curriculum = Curriculum({"a": stage(5), "b": stage(7)})
    assert curriculum.steps == 12
    assert [(s.name, at) for s, at in map(curriculum.at, (0, 4, 5, 11, 20))] == [
        ("a", 0),
        ("a", 4),
        ("b", 0),
        ("b", 6),
        ("b", 15),
    ]


@pytest.mark.parametrize("stages", [{}, {"a": stage(0)}])
def test_a_curriculum_needs_a_stage_with_steps(stages: dict[str, Stage]) -> None:
    with pytest.raises(ZooError, match="at least one stage with steps"):
        Curriculum(stages)


def test_multipliers_are_those_of_the_stages_that_have_steps() -> None:
    curriculum = Curriculum(
        {"a": stage(0, multipliers=[5]), "b": stage(3, multipliers=[1, 9]), "c": stage(3)}
    )
    assert curriculum.multipliers == {1, 3, 4, 8}  # 9 is taken as the whole length, 4 or 8


@pytest.mark.parametrize(
    "wrong",
    [
        {"chunks": []},
        {"multipliers": []},
        {"chunks": [4, 0]},
        {"multipliers": [0]},
        {"batch_seconds": 0},
    ],
)
def test_a_stage_refuses_what_makes_no_batch(wrong: dict[str, object]) -> None:
    with pytest.raises(ZooError, match=next(iter(wrong))):
        stage(5, **wrong)


def test_the_learning_rate_warms_up_holds_and_decays() -> None:
    linear = stage(100, hold=0.5)
    assert [linear.factor(step) for step in (0, 4, 9, 50)] == [0.1, 0.5, 1.0, 1.0]
    assert linear.factor(75) == pytest.approx(0.5)
    assert linear.factor(100) == pytest.approx(0.0)
    assert stage(100, schedule="constant").factor(99) == 1.0
    assert stage(100, schedule="cosine", hold=0.0).factor(55) == pytest.approx(0.5)
    decaying = stage(100, schedule="cosine", hold=0.0, warmup_steps=20)
    assert decaying.factor(19) == decaying.factor(20) == 1.0
    assert decaying.factor(60) == pytest.approx(0.5)


def test_a_stretch_keeps_its_length_if_its_multiplier_does_not_divide_it() -> None:
    random = np.random.default_rng(0)
    drawn = [stage(9).stretches.draw(random) for _ in range(300)]
    assert set(drawn) == {(4, 1), (4, 3), (8, 1), (8, 3)}
    longer = sum(chunks > 4 for chunks, _ in drawn)
    assert 60 < longer < 140  # a third of the stretches, half of the audio


def test_examples_of_a_step_are_shared_out_evenly() -> None:
    curriculum = Curriculum({"a": stage(5, examples=32), "b": stage(5)})
    assert [s.examples for s in curriculum.shared(8).stages] == [4, None]
    with pytest.raises(
        ZooError, match="The 32 examples of a step of stage 'a' cannot be divided among 5 batches"
    ):
        curriculum.shared(5)


def test_seconds_of_a_step_are_shared_out_as_well() -> None:
    curriculum = Curriculum({"a": stage(5, batch_seconds=None, step_seconds=96.0), "b": stage(5)})
    assert [s.limits.seconds for s in curriculum.shared(8).stages] == [12.0, 24.0]


def test_passes_become_steps() -> None:
    curriculum = Curriculum({"a": stage(5), "b": stage(0, passes=1.5), "c": stage(0, passes=0)})
    assert [s.name for s in curriculum.stages if s.is_used] == ["a", "b"]
    counted = curriculum.counted({"b": 7.0})
    assert [s.steps for s in counted.stages] == [5, 10, 0]  # 10.5 rounds to an even number
    assert counted.steps == 15
    assert counted.counted({}).steps == 15


@pytest.mark.parametrize(
    ("contradiction", "sentence"),
    [
        ({"passes": 2}, "either steps or passes"),
        ({"step_seconds": 9.0}, "either batch_seconds or step_seconds"),
        ({"batch_seconds": None}, "either batch_seconds or step_seconds"),
        ({"passes": -1}, "passes"),
    ],
)
def test_a_stage_has_one_length_and_one_size(
    contradiction: dict[str, object], sentence: str
) -> None:
    with pytest.raises(ZooError, match=sentence):
        stage(5, **contradiction)


def test_a_share_of_the_steps_is_the_warm_up() -> None:
    for steps in (10, 1000):
        warmed = stage(steps, warmup_share=0.1, schedule="constant")
        reached = [step for step in range(steps) if warmed.factor(step) == 1.0]
        assert reached[0] == steps // 10 - 1
    with pytest.raises(ZooError, match=r"warmup_share from 0 to 1, not 1\.5"):
        stage(10, warmup_share=1.5)
