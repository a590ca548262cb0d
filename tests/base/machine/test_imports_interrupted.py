"""Ctrl-C while a command imports its modules: one sentence and exit code 130."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.processes import ROOT
from zoo.base.errors import INTERRUPTED
from zoo.base.machine import imports

# A module that the command imports, which interrupts the import as Ctrl-C does.
INTERRUPTS = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"
INSTALLED = "import sys; sys.argv[:] = ['simulzoo', '{}']; from zoo.__main__ import main; main()"
COMMANDS = {
    "train": (["train.py"], "hydra"),
    "evaluate": (["evaluate.py"], "omegaconf"),
    "evaluate, later": (["evaluate.py"], "torch"),
    "translate": (["-m", "zoo", "translate", "README.md"], "yaml"),
    "prepare": (["-m", "zoo", "prepare"], "hydra"),
    "keys": (["-m", "zoo", "keys"], "hydra"),
    "report": (["-m", "zoo", "report", "run"], "rich"),
    "card": (["-P", "-m", "zoo", "card", "run"], "yaml"),
    "convert": (["-m", "zoo", "convert-lst", "a", "b"], "torch"),
    "a module": (["-m", "zoo.report.card", "run"], "yaml"),
    "installed": (["-c", INSTALLED.format("report")], "rich"),
}


def heed_interrupts() -> None:
    """End at SIGINT, which a shell lets its background jobs ignore, and with them these tests."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("name", COMMANDS)
def test_an_interrupted_import(name: str, tmp_path: Path) -> None:
    command, module = COMMANDS[name]
    (tmp_path / module).mkdir()
    (tmp_path / module / "__init__.py").write_text(INTERRUPTS)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        preexec_fn=heed_interrupts,
    )
    assert done.stderr.strip() == "ended by SIGINT."
    assert (done.returncode, done.stdout) == (INTERRUPTED, "")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["-c", "import zoo"], "-c"),
        (["script.py", "-m", "zoo"], "script.py"),
        (["-m", "pytest", "zoo"], "-m"),
        (["-m", "zoology"], "-m"),
        ([], ""),
    ],
)
def test_other_programs_keep_their_handler(
    words: list[str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python", *words])
    monkeypatch.setattr(sys, "argv", [name, *words[1:]])
    assert not imports.is_command()


def test_the_handler_before_is_restored() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with imports.ending_on_interrupt():
            assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


ENDING = """
import atexit, os, signal, threading, time
from zoo.base.machine.imports import prepare_imports
prepare_imports()
from zoo.base.machine.signals import interruptible

class Network:
    def __del__(self):
        os.write(1, b"taken apart")

network = Network()
atexit.register(print, "hook")
threading.Thread(target=lambda: (time.sleep(0.1), print("thread"))).start()
with interruptible(with_sigterm=True):
    if NUMBER:
        os.kill(os.getpid(), NUMBER)
"""


@pytest.mark.parametrize(("number", "code"), [(0, 0), (signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_what_a_signal_ends_is_not_taken_apart(number: int, code: int) -> None:
    script = ENDING.replace("NUMBER", str(int(number)))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (code, "thread\nhook\n" + "taken apart" * (not code))
