"""An agent of SimulEval in the place of a system (``system=simuleval_agent``)."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import soxr
import torch

from zoo.base.errors import ZooError
from zoo.base.machine.devices import device_named
from zoo.base.types import SAMPLE_RATE, Action, Samples, Seconds, SpeechChunk
from zoo.extras.interop.foreign import ForeignStream, ForeignSystem
from zoo.formats.pieces import SPACE_MARK

MS = 1000
OUTPUTS = ("text", "speech")


class SimulEvalAgent(ForeignSystem):
    """Runs an agent whose source is speech and whose target is text or speech.

    The agent receives segments of speech as from SimulEval's evaluator: the last one is finished,
    and an agent that finishes earlier is reset and receives the rest.

    Args:
        name: Name of the system in results.
        source_language: Code of the source language.
        target_language: Code of the target language.
        agent: Python file of the agent, or folder with ``main.yaml`` (``--system-dir``).
        agent_class: Class of the agent (``--agent-class``), if the file has several, or instead of
            a file.
        arguments: Arguments of the agent by name, as on SimulEval's command line; underscores may
            stand for hyphens. A list has several values, and True stands for an option without
            value.
        tgt_lang: Code of the target language that the agent expects; None: the zoo's.
        chunk_seconds: Duration of a segment of speech (``--source-segment-size``) in seconds.
        device: Device of the agent (``--device``).
    """

    def __init__(
        self,
        *,
        name: str,
        source_language: str,
        target_language: str,
        agent: str | Path | None = None,
        agent_class: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        tgt_lang: str | None = None,
        chunk_seconds: Seconds = 0.64,
        device: str = "auto",
    ) -> None:
        super().__init__(
            package="simuleval",
            install="pip install --no-deps simuleval==1.1.4",
            name=name,
            source_language=source_language,
            target_language=target_language,
            chunk_seconds=chunk_seconds,
        )
        self.agent = None if agent is None else Path(agent)
        self.agent_class = agent_class
        self.arguments = dict(arguments or {})
        self.tgt_lang = tgt_lang or target_language
        self.device_name = device
        self._output = ""

    @property
    def emits_speech(self) -> bool:
        """Whether the target of the agent's class is speech; imports the class.

        Raises:
            ZooError: SimulEval is not installed, or the arguments name no agent for speech.
        """
        if not self._output:
            self.check_package()
            from simuleval.utils.agent import get_agent_class

            with self._command_line():
                found = get_agent_class()
            stages = getattr(found, "pipeline", [])
            self._output = str((stages[-1] if stages else found).target_type)
            source = str((stages[0] if stages else found).source_type)
            if source != "speech" or self._output not in OUTPUTS:
                raise ZooError(
                    f"The agent {found.__name__} translates {source} to {self._output}; "
                    "system=simuleval_agent needs speech to text or speech to speech."
                )
        return self._output == "speech"

    def create(self) -> Any:
        """Create the agent as SimulEval's command line does; see ``ForeignSystem``."""
        from simuleval.utils.agent import build_system_args

        assert self.emits_speech in (True, False)  # raises ZooError for another kind of agent
        with self._command_line():
            agent, _ = build_system_args()
        return agent

    def open(self, talk: str, **known: Any) -> ForeignStream:
        """Open a stream; see ``System``."""
        stream = super().open(talk, **known)
        stream.part.reset()
        return stream

    def advance(self, stream: ForeignStream, chunk: SpeechChunk) -> Action:
        """Send a segment to the agent; see ``ForeignSystem``."""
        from simuleval.data.segments import EmptySegment, SpeechSegment

        end = stream.received * MS / SAMPLE_RATE
        if chunk.samples.numel():
            segment = SpeechSegment(
                index=end,
                content=chunk.samples.tolist(),
                sample_rate=SAMPLE_RATE,
                finished=chunk.final,
                tgt_lang=self.tgt_lang,
            )
        else:
            segment = EmptySegment(index=end, finished=chunk.final)
        output = stream.part.pushpop(segment)
        if output.finished and not chunk.final:
            stream.part.reset()
        if output.is_empty or not len(output.content):
            return Action()
        if self.emits_speech:
            return Action(speech=at_our_rate(output.content, output.sample_rate))

        text = self._joined(stream, output.content)
        stream.text += text
        return Action(text=text)

    def _joined(self, stream: ForeignStream, content: str) -> str:
        """Return the text that a write adds; SimulEval joins writes with spaces.

        Raises:
            ZooError: The agent writes pieces of words.
        """
        if SPACE_MARK in content or SPACE_MARK in stream.text:
            raise ZooError(
                f"The agent {self.name!r} writes pieces of words ({content.strip()!r}); the zoo "
                "needs agents that write whole words (SimulEval's latency units word and char)."
            )
        separator = self.target_language.separator if stream.text else ""
        return f"{separator}{content.strip()}" if content.strip() else ""

    @contextmanager
    def _command_line(self) -> Iterator[None]:
        """Set the command line that SimulEval reads, and forget agents that were registered.

        Raises:
            ZooError: No agent is named, or SimulEval does not accept the arguments.
        """
        from simuleval.utils import EVALUATION_SYSTEM_LIST

        given = [*self._named(), "--source-segment-size", str(round(self.chunk_seconds * MS))]
        given += ["--device", device_named(self.device_name)]
        for key, value in self.arguments.items():
            values = value if isinstance(value, list | tuple) else [value]
            given += [f"--{key.replace('_', '-')}"]
            given += [str(item) for item in values if item is not True]

        before, sys.argv = sys.argv, ["simuleval", *given]
        EVALUATION_SYSTEM_LIST.clear()
        try:
            yield
        except SystemExit as error:
            raise ZooError(
                f"SimulEval does not accept the arguments {' '.join(given)!r} of system "
                f"{self.name!r}; its own message is above."
            ) from error
        finally:
            sys.argv = before

    def _named(self) -> list[str]:
        """Return the options that name the agent. Raises ZooError if there is none."""
        given = [] if self.agent_class is None else ["--agent-class", self.agent_class]
        if self.agent is None and given:
            return given
        if self.agent is None:
            raise ZooError(
                "system=simuleval_agent needs system.agent, a Python file or a folder with "
                "main.yaml, or system.agent_class, the dotted path of a class."
            )
        if self.agent.is_file():
            return [*given, "--agent", str(self.agent)]
        if (self.agent / "main.yaml").is_file():
            return [*given, "--system-dir", str(self.agent)]
        raise ZooError(f"There is no agent {self.agent}: no file, and no folder with main.yaml.")


def at_our_rate(content: list[float], rate: Samples) -> torch.Tensor:
    """Return speech at the sample rate of the zoo.

    Args:
        content: Samples.
        rate: Their rate in samples per second.

    Returns:
        (n,) float32 at 16 kHz.
    """
    samples = np.asarray(content, dtype=np.float32)
    if rate != SAMPLE_RATE:
        samples = soxr.resample(samples, rate, SAMPLE_RATE)
    return torch.from_numpy(np.ascontiguousarray(samples))
