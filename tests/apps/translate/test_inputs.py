"""Which files become talks, under which names, and which are refused."""

import logging
import os
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.fixtures.films import to_film
from zoo.apps.translate.inputs import find_talks
from zoo.base.errors import ZooError

RATE = 44_100
FILMS = (("a b", ".m4a"), ("c", ".mp4"))


def write(path: Path, seconds: float = 0.5, **options: str) -> Path:
    path.parent.mkdir(exist_ok=True, parents=True)
    stereo = np.full((round(seconds * RATE), 2), 0.25, np.float32)
    soundfile.write(path, stereo, RATE, **options)
    return path


def names(paths: list[Path]) -> list[str]:
    talks = find_talks([str(path) for path in paths], source_language="en")
    return [talk.name for talk in talks]


def test_files_and_the_audio_of_folders_become_talks(tmp_path: Path) -> None:
    for name in ("in it/b.WAV", "in it/a.flac", "in it/deeper/c.mp3", "in it/.hidden.wav"):
        write(tmp_path / name)
    (tmp_path / "in it" / "notes.txt").write_text("no audio")
    single = write(tmp_path / "no-suffix", format="WAV", subtype="PCM_U8")
    assert names([single, tmp_path / "in it"]) == ["no-suffix", "a", "b", "c"]


def test_files_of_one_name_are_numbered_and_a_file_is_taken_once(tmp_path: Path) -> None:
    files = [write(tmp_path / name) for name in ("a/talk.wav", "b/talk.wav", "b/talk.flac")]
    assert names([*files, files[0]]) == ["talk", "talk-2", "talk-3"]


def test_a_name_of_an_old_archive_is_refused(tmp_path: Path) -> None:
    """A name in Latin-1, which no file of the output can have."""
    path = write(tmp_path / "in" / "a.wav")
    path.rename(os.fsdecode(bytes(path.parent) + b"/M\xfcnchen.wav"))
    with pytest.raises(ZooError, match=r"M\\udcfcnchen.wav' has a name that is not UTF-8"):
        names([tmp_path / "in"])


def test_a_silent_file_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "silent.wav"
    soundfile.write(path, np.zeros(RATE), RATE)
    with caplog.at_level(logging.WARNING):
        assert names([path]) == ["silent"]
    assert f"The audio of {path} is silent." in caplog.text


def test_the_duration_is_that_of_the_samples(tmp_path: Path) -> None:
    (talk,) = find_talks([str(write(tmp_path / "a.wav", 0.1))], source_language="en")
    assert (talk.duration, talk.source_language) == (pytest.approx(0.1), "en")
    assert [(segment.offset, segment.targets) for segment in talk.segments] == [(0.0, {})]


def test_what_is_no_audio_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.wav").write_text("no audio")
    (tmp_path / "empty.wav").touch()
    (tmp_path / "nothing").mkdir()
    for path, words in (
        (tmp_path / "text.wav", "text.wav is damaged or not audio .* Allowed are WAV, FLAC"),
        (tmp_path / "empty.wav", "empty.wav is damaged or not audio .it is empty"),
        (write(tmp_path / "none.wav", 0), "has no samples"),
        (tmp_path / "nothing", "has no audio file"),
        (tmp_path / "missing.wav", "There is no file or folder"),
    ):
        with pytest.raises(ZooError, match=words):
            names([path])


def test_films_are_talks(tmp_path: Path) -> None:
    files = [to_film(write(tmp_path / f"{name}.wav"), suffix) for name, suffix in FILMS]
    talks = find_talks([str(path) for path in files], source_language="en")
    assert [talk.name for talk in talks] == ["a b", "c"]
    assert [talk.duration for talk in talks] == [pytest.approx(0.5)] * 2
    assert [talk.file for talk in talks] == files
