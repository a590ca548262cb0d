"""Files and overrides of a command line in any order, and names that Hydra would read otherwise."""

from pathlib import Path

import pytest

from zoo.apps.translate.command_line import to_overrides
from zoo.base.errors import ZooError
from zoo.config import compose

NAMES = (
    "a talk.wav",
    "a=b.wav",
    "it's.wav",
    "\\'.wav",
    "a,b [c] {d}: (e).wav",
    "${seed}.wav",
    "\\${seed}.wav",
    "100%.wav",
    "null",
    "~x",
    '"quoted".wav',
    "end\\",
    "Übung 字.wav",
)


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("talk.wav").touch()
    Path("folder").mkdir()


def test_files_folders_and_overrides_come_in_any_order() -> None:
    given = to_overrides(["seed=1", "talk.wav", "+x.y=2", "folder", "~system.knob", "--microphone"])
    assert given == [
        "seed=1",
        "+x.y=2",
        "~system.knob",
        "microphone=true",
        "inputs=['talk.wav','folder']",
    ]


def test_options_keep_their_values() -> None:
    given = ["--cfg", "job", "--config-dir", "folder", "-m", "seed=1,2"]
    assert to_overrides(given) == given


@pytest.mark.parametrize("name", NAMES)
def test_a_name_arrives_unchanged(name: str) -> None:
    Path(name).touch()
    cfg = compose("translate", to_overrides(["seed=3", name, "talk.wav"]))
    assert list(cfg.inputs) == [name, "talk.wav"]


def test_what_follows_two_dashes_is_an_input() -> None:
    Path("--cfg").touch()
    assert to_overrides(["--", "--cfg", "talk.wav"]) == ["inputs=['--cfg','talk.wav']"]


@pytest.mark.parametrize("given", [["missing.wav"], ["no folder/a=b.wav"], ["--", "seed=1"]])
def test_a_missing_file_is_named(given: list[str]) -> None:
    with pytest.raises(ZooError, match=f"There is no file or folder '{given[-1]}'"):
        to_overrides(given)
