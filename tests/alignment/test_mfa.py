"""The Montreal Forced Aligner: its input, a run of a stub, and the command without it."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest
import soundfile

from tests.apps.prepare.conftest import write_corpus
from tests.fixtures.mfa import STUB, write_mfa
from zoo.alignment.times.base import CorpusTimer
from zoo.alignment.times.mfa import MFATimes
from zoo.apps.prepare.job import prepare
from zoo.base.errors import ZooError
from zoo.base.talks import Talk, Word
from zoo.config import compose
from zoo.data.corpora import Aligned


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder for data=aligned with four talks of three segments."""
    return write_corpus(tmp_path / "corpus")


def install(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a program mfa and put its folder on the path."""
    program = write_mfa(folder, text)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return program


def run(corpus: Path, out: Path, *overrides: str) -> list[Talk]:
    settings = [f"data.folder={corpus}", f"prepare.folder={out}", "prepare.splits=[train]"]
    steps = ["steps=[audio,words,filters]", "word_times=mfa", "logger.mode=disabled", "device=cpu"]
    prepare(compose("prepare", ["data=aligned", *settings, *steps, *overrides]))
    return Aligned(folder=str(out)).talks("train")


def check(talks: list[Talk]) -> None:
    good, laughter, number = talks[3].segments
    assert [word.text for word in good.words] == ["Good", "cats", "sleep."]
    assert good.words[1] == Word("cats", 0.75, 1.25)
    assert good.usable
    assert not laughter.usable  # by the filter of sounds
    assert not number.usable  # MFA has not aligned it


def test_mfa_is_run_once_for_all_talks(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "bin", STUB, monkeypatch)
    check(run(corpus, tmp_path / "out"))
    [folder] = (tmp_path / "out" / "mfa").iterdir()
    written = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.lab"))
    assert written[:2] == ["corpus/talk%2F0/00000.lab", "corpus/talk%2F0/00002.lab"]
    assert len(written) == 8
    info = soundfile.info(folder / "corpus" / "talk%2F0" / "00000.wav")
    assert (info.samplerate, info.channels, info.duration) == (16000, 1, 1.5)
    check(run(corpus, tmp_path / "out", "word_times.jobs=2"))
    assert (folder / "calls").read_text() == "x"
    assert (tmp_path / "out" / "train.segments.tsv").read_text().count("there is no file") == 4


def test_without_mfa_the_command_is_named_and_its_textgrids_are_read(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = install(tmp_path / "elsewhere", STUB, monkeypatch)
    monkeypatch.setattr("shutil.which", lambda _: None)
    option = "word_times.options=[--single_speaker]"
    for _ in range(2):
        with pytest.raises(ZooError, match="There is no command mfa here; run `mfa align") as error:
            run(corpus, tmp_path / "out", option)
    command = shlex.split(str(error.value).split("`")[1])
    assert "--single_speaker" in command
    subprocess.run([program, *command[1:]], check=True)
    check(run(corpus, tmp_path / "out", option))


def test_a_failed_run_leaves_no_textgrids_and_is_repeated(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = install(tmp_path / "bin", STUB + "sys.exit(3)", monkeypatch)
    with pytest.raises(ZooError, match=r"mfa has written no TextGrids \(exit code 3;"):
        run(corpus, tmp_path / "out")
    assert not list((tmp_path / "out" / "mfa").rglob("*.TextGrid"))
    program.write_text(program.read_text().replace("sys.exit(3)", ""))
    check(run(corpus, tmp_path / "out"))


def test_models_are_those_of_the_language_by_default() -> None:
    french = MFATimes(language="fr", dictionary="/models/fr.dict")
    assert (french.acoustic_model, french.dictionary) == ("french_mfa", "/models/fr.dict")
    assert isinstance(french, CorpusTimer)
