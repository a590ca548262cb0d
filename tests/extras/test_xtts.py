"""XTTS-v2 in an environment of its own: what is missing, the process, and the waveforms."""

import copy
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import torch

from tests.contract.scripted import Scripted
from tests.fixtures.processes import ROOT
from tests.fixtures.xtts_environment import bare, calls, environment, weights
from tests.synthesizers.speech_requests import requests_for
from zoo.backbones.base import shapes_of_weights
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.extras.xtts.xtts import FILES, XTTS

DE = language("de")


@pytest.fixture
def parts(tmp_path: Path) -> dict[str, str]:
    """Arguments of XTTS that name an environment, weights and a voice."""
    name, reference = weights(tmp_path / "weights")
    python = environment(tmp_path / "environment")
    return {"python": str(python), "name": str(name), "reference": str(reference)}


def process_of(parts: dict[str, str]) -> int:
    """Number of the only process that has loaded the weights."""
    (line,) = [line for line in calls(Path(parts["name"])) if line.startswith("process")]
    return int(line.split()[1])


def runs(process: int) -> bool:
    """Whether a process runs."""
    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def program(text: str) -> Callable[[Path], str]:
    """Return a function that writes a shell script in place of a Python."""

    def write(folder: Path) -> str:
        path = folder / "program"
        path.write_text(text)
        path.chmod(0o755)
        return str(path)

    return write


MISSING: dict[str, tuple[str, str | Callable[[Path], str] | None, str]] = {
    "no environment": ("python", "nowhere/python", r"no file nowhere/python: run `make xtts`, or"),
    "a folder": ("python", ".", r"there is no file \.: run `make xtts`"),
    "not executable": (
        "python",
        lambda folder: str(folder / "weights" / "voice.wav"),
        r"^Cannot start /.*voice\.wav for XTTS-v2: Permission denied\.$",
    ),
    "no coqui-tts": (
        "python",
        lambda folder: str(bare(folder / "bare")),
        r"^/.*bare/bin/python cannot import coqui-tts: No module named 'TTS'$",
    ),
    "another program": ("python", program("#!/bin/sh\necho hello"), r"is no Python: .*hello"),
    "a program that fails": (
        "python",
        program("#!/bin/sh\necho one >&2; echo two >&2; exit 3"),
        r"^XTTS-v2 has ended while starting \(exit code 3\): two$",
    ),
    "a silent program": ("python", program("#!/bin/sh"), r"\(exit code 0\): without a message$"),
    "no weights": ("name", None, r"^synthesizer\.name must be a folder with .*not None; .*CPML"),
    "a folder without weights": ("name", "/nowhere", r"^synthesizer\.name .*vocab\.json.*nowhere"),
    "no voice": ("reference", None, r"^synthesizer\.reference must be a recording.*not None\.$"),
    "a missing voice": ("reference", "a.wav", r"^synthesizer\.reference .*not a\.wav\.$"),
}


@pytest.mark.parametrize("case", MISSING)
def test_what_is_missing_is_named_before_weights_are_loaded(
    case: str, parts: dict[str, str], tmp_path: Path
) -> None:
    key, value, message = MISSING[case]
    changed = {**parts, key: value(tmp_path) if callable(value) else value}
    with pytest.raises(ZooError, match=message):
        XTTS(**changed).check(DE)
    assert calls(Path(parts["name"])) == []


def test_a_language_it_does_not_speak_is_refused() -> None:
    with pytest.raises(ZooError, match=r"does not support Romanian; .*synthesizer=espeak"):
        XTTS().check(language("ro"))


@pytest.mark.parametrize("file", FILES)
def test_each_file_of_the_weights_is_needed(file: str, parts: dict[str, str]) -> None:
    XTTS(**parts).check(DE)
    (Path(parts["name"]) / file).unlink()
    with pytest.raises(ZooError, match=r"synthesizer\.name must be a folder with"):
        XTTS(**parts).check(DE)


def test_a_package_that_does_not_load_is_named_with_its_reason(parts: dict[str, str]) -> None:
    packages = next(Path(parts["python"]).parents[1].glob("lib/python*/site-packages"))
    (packages / "TTS" / "__init__.py").write_text("raise ImportError('it needs\\n torchcodec')")
    with pytest.raises(ZooError, match=r"cannot import coqui-tts: it needs torchcodec$"):
        XTTS(**parts).check(DE)


def test_texts_are_sampled_from_one_seed_and_brought_to_16_khz(parts: dict[str, str]) -> None:
    speaker = XTTS(**parts)
    speaker.load(Scripted())
    first, silent, again, chinese = speaker.synthesize(
        requests_for(" Tag", ".", "Tag")
    ) + speaker.synthesize(requests_for("你好", target="zh"))
    assert torch.equal(first, again)
    assert (len(first), len(silent), len(chinese)) == (4800, 0, 3200)
    assert first.dtype == torch.float32
    assert 0.4 < first.max() < 0.7
    assert calls(Path(parts["name"])) == [
        f"process {process_of(parts)}",
        "voice voice.wav",
        "de 0.75 Tag",
        "de 0.75 Tag",
        "zh-cn 0.75 你好",
    ]
    (other,) = XTTS(**parts, seed=1).synthesize(requests_for("Tag"))
    assert not torch.equal(first, other)


def test_a_long_text_is_spoken_in_pieces(parts: dict[str, str]) -> None:
    (wave,) = XTTS(**parts).synthesize(requests_for("Guten Tag, liebe Leute und Kinder"))
    assert calls(Path(parts["name"]))[2:] == [
        "de 0.75 Guten Tag, liebe",
        "de 0.75 Leute und Kinder",
    ]
    assert len(wave) == 1600 * len("Guten Tag, liebe" + "Leute und Kinder")


def test_damaged_weights_are_named_by_the_last_line(parts: dict[str, str]) -> None:
    (Path(parts["name"]) / "model.pth").write_text("damaged")
    message = r"^XTTS-v2 has ended while loading \(exit code 1\): RuntimeError: the weights do not"
    with pytest.raises(ZooError, match=message):
        XTTS(**parts).load(Scripted())


def test_a_process_that_dies_is_named_with_the_text(parts: dict[str, str]) -> None:
    speaker = XTTS(**parts)
    with pytest.raises(
        ZooError,
        match=r"^XTTS-v2 has ended while speaking 'crash' \(exit code 1\): Mem.*of memory$",
    ):
        speaker.synthesize(requests_for("Tag", "crash"))

    speaker = XTTS(**{**parts, "name": str(weights(Path(parts["name"]) / "more")[0])})
    speaker.load(Scripted())
    process = process_of({"name": str(speaker.name)})
    os.kill(process, signal.SIGKILL)
    with pytest.raises(ZooError, match=r"while speaking 'Tag' \(exit code -9\): "):
        speaker.synthesize(requests_for("Tag"))


def test_the_process_ends_with_the_synthesizer(parts: dict[str, str]) -> None:
    speaker = XTTS(**parts)
    speaker.load(Scripted())
    process = process_of(parts)
    assert runs(process)
    del speaker
    assert not runs(process)


PARENT = """
import os, signal, sys
from zoo.extras.xtts.xtts_speaker import Speaker
python, folder, reference = sys.argv[1:]
with Speaker(python) as speaker:
    speaker.load(folder=folder, reference=reference, temperature=1.0, seed=0, threads=1)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_process_ends_with_a_parent_that_is_killed(parts: dict[str, str]) -> None:
    ended = subprocess.run([sys.executable, "-c", PARENT, *parts.values()], cwd=ROOT, check=False)
    assert ended.returncode == -signal.SIGKILL
    process = process_of(parts)
    deadline = time.monotonic() + 60
    while runs(process) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not runs(process)


def test_a_trial_without_values_of_weights_starts_no_process(parts: dict[str, str]) -> None:
    speaker = copy.deepcopy(XTTS(**parts))
    with shapes_of_weights():
        speaker.load(Scripted())
    assert calls(Path(parts["name"])) == []


def test_a_temperature_of_nothing_is_refused() -> None:
    with pytest.raises(ZooError, match="temperature above 0"):
        XTTS(temperature=0)
