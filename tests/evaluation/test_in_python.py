"""``zoo.evaluate`` gives what ``evaluate.py`` gives."""

from pathlib import Path

import pytest

import zoo
from tests.evaluation.conftest import Evaluate
from zoo.base.audio import files as audio
from zoo.base.errors import ZooError
from zoo.data.minitalks import corpus as minitalks
from zoo.runs.rows.row import read_rows
from zoo.systems.base import StreamingSystem


@pytest.fixture(scope="module")
def system() -> StreamingSystem:
    return zoo.load("infinisst_minitalks_en-de")


def test_the_scores_are_those_of_the_command(
    system: StreamingSystem, evaluate: Evaluate, here: Path
) -> None:
    system.turn_knob(3)
    folder = here / "python"
    results = zoo.evaluate(system, limit=1, knob_values=[1, 2], folder=folder)
    assert system.knob_value == 3
    assert list(results.rows["value"]) == [1, 2]
    assert set(results.segments["talk"]) == {talk.name for talk in minitalks.build("tst", talks=1)}

    options = ("evaluation.talks=1", "evaluation.knob_values=[1,2]", "evaluation.oracle_k=[]")
    more = ("evaluation.upper_bound=false", "hydra.run.dir=command", "logger=csv", "device=cpu")
    assert evaluate(*options, *more, tiny=False).code == 0
    for ours, theirs in zip(
        read_rows(folder / "results.json"), read_rows(here / "command/results.json"), strict=True
    ):
        assert (ours.system, ours.knob, ours.data) == (theirs.system, theirs.knob, theirs.data)
        for name, value in theirs.scores.items():
            if "_CA" not in name and name != "RTF":
                assert ours.scores[name] == value, name


def test_a_folder_of_own_audio_is_evaluated_at_the_present_setting(
    system: StreamingSystem, tmp_path: Path
) -> None:
    [talk] = minitalks.build("tst", talks=1)
    place = tmp_path / "talks"
    place.mkdir()
    audio.write(place / "mine.wav", audio.load(talk.file, duration=6.0))
    (place / "mine.de.txt").write_text("Julia hat das Geld ausgegeben.\n")
    (place / "mine.en.txt").write_text("Julia has spent the money.\n")
    system.turn_knob(2)
    results = zoo.evaluate(system, place, folder=tmp_path / "run")
    assert list(results.rows["value"]) == [2]
    assert list(results.segments["talk"]) == ["mine"]
    with pytest.raises(ZooError, match="is not empty; choose another folder"):
        zoo.evaluate(system, place, folder=tmp_path / "run")


@pytest.mark.parametrize(
    ("talks", "more", "message"),
    [
        (Path("nowhere"), {}, "There is no folder nowhere"),
        ("nowhere", {}, "nowhere"),
        ([], {}, "There is no talk to evaluate"),
        ("minitalks", {"beams": 3}, "zoo.evaluate: .*beams"),
        ("minitalks", {"knob_values": [0], "limit": 1}, "m"),
        ("minitalks", {"split": "test"}, "test"),
    ],
)
def test_mistakes_are_one_sentence(
    system: StreamingSystem, talks: object, more: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ZooError, match=message):
        zoo.evaluate(system, talks, folder=tmp_path / "run", **more)  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()
