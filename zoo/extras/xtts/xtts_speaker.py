"""Starts ``xtts_process.py`` in the environment of coqui-tts and sends it texts."""

import json
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from textwrap import shorten
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from zoo.base.errors import ZooError

SCRIPT = Path(__file__).with_name("xtts_process.py")
BYTES = 4  # of a float32 sample
LONGEST = 80  # characters of a text in a message


class Speaker:
    """A process of XTTS-v2, used as a context manager, which ends it.

    Attributes:
        version: version of coqui-tts.
        rate: sample rate in Hz, after ``load``.

    Args:
        python: Python of an environment with coqui-tts.
    """

    def __init__(self, python: str) -> None:
        self.python = python
        self.version = ""
        self.rate = 0
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        """Start the process and import coqui-tts.

        Raises:
            ZooError: the program cannot be started, is no Python, or coqui-tts cannot be imported.
        """
        # -I keeps the paths of this process away from the environment.
        command = [self.python, "-I", "-X", "utf8", str(SCRIPT)]
        with ExitStack() as stack:
            self._errors = stack.enter_context(tempfile.TemporaryFile())
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._errors,
                    start_new_session=True,  # Ctrl-C is for the parent, whose end ends the input
                )
            except OSError as error:
                message = f"Cannot start {self.python} for XTTS-v2: {error.strerror}."
                raise ZooError(message) from error
            stack.callback(self._end)
            answer = self._answer("starting")
            if "error" in answer:
                raise ZooError(f"{self.python} cannot import coqui-tts: {answer['error']}")
            self.version = answer["version"]
            self._opened = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._opened.close()

    def _end(self) -> None:
        """End the process; it has nothing to save, so that it need not finish a text."""
        self._process.kill()
        self._process.communicate()

    def load(self, **settings: Any) -> None:
        """Load weights and voice.

        Args:
            settings: arguments of ``Voice`` in ``xtts_process.py``.

        Raises:
            ZooError: the process has ended.
        """
        self.rate = self._request("loading", settings)["rate"]

    def speak(self, text: str, language: str, device: str) -> NDArray[np.float32]:
        """Synthesise a text: (samples,) at ``rate``.

        Args:
            text: the text.
            language: XTTS-v2's code of its language.
            device: device of torch.

        Raises:
            ZooError: the process has ended.
        """
        request = {"text": text, "language": language, "device": device}
        job = f"speaking {shorten(text, LONGEST)!r}"
        length = BYTES * self._request(job, request)["samples"]
        assert self._process.stdout is not None
        content = self._process.stdout.read(length)
        if len(content) < length:
            raise self._ended(job)
        return np.frombuffer(content, dtype="<f4")

    def _request(self, job: str, request: dict[str, Any]) -> dict[str, Any]:
        """Send a JSON line and return the answer. Raises ZooError if the process has ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._ended(job) from error
        return self._answer(job)

    def _answer(self, job: str) -> dict[str, Any]:
        """Return a JSON line of the process. Raises ZooError for another line or the end."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._ended(job)
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError as error:
            raise ZooError(f"{self.python} is no Python: it printed {line[:80]!r}.") from error
        return answer

    def _ended(self, job: str) -> ZooError:
        """Return the error of a process that has ended, with the last line of its messages."""
        code = self._process.wait()
        self._errors.seek(0)
        last = self._errors.read().decode(errors="replace").strip().rpartition("\n")[2]
        return ZooError(
            f"XTTS-v2 has ended while {job} (exit code {code}): {last or 'without a message'}"
        )
