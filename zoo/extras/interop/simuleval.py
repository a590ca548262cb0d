"""Systems of the zoo as agents of SimulEval (Ma et al., 2020).

    simuleval --agent-class zoo.extras.interop.simuleval.SpeechToText --zoo streamatt \
        --zoo-overrides policy.frames=4 --source wavs.txt --target references.txt \
        --source-segment-size 640 --output results

``SpeechToSpeech`` runs systems with a synthesizer. SimulEval's options ``--source-segment-size``
(milliseconds of audio per step) and ``--device`` apply. Delays equal those of ``evaluate.py`` if
the duration of a step is a multiple of the segment size. Needs the package simuleval 1.1.
"""

from argparse import ArgumentParser, Namespace
from typing import Any

import torch
from simuleval.agents import SpeechToSpeechAgent, SpeechToTextAgent
from simuleval.agents.actions import ReadAction, WriteAction
from simuleval.agents.states import AgentStates
from simuleval.data.segments import SpeechSegment

from zoo.base.errors import ZooError
from zoo.base.types import SAMPLE_RATE, Action
from zoo.extras.interop.live import LiveStream, check_language, check_rate, loaded_system
from zoo.systems.base import StreamingSystem


class StreamStates(AgentStates):  # type: ignore[misc]  # SimulEval has no types
    """State of one stream, which SimulEval resets before each source."""

    def reset(self) -> None:
        """Drop the stream."""
        super().reset()
        self.stream: LiveStream | None = None


class SystemAgent:
    """What the agents for text and for speech have in common."""

    system: StreamingSystem
    states: StreamStates

    @staticmethod
    def add_args(parser: ArgumentParser) -> None:
        """Add the options that choose a system."""
        parser.add_argument(
            "--zoo", required=True, help="name of a system, or folder or name of a checkpoint"
        )
        parser.add_argument(
            "--zoo-overrides", nargs="*", default=[], help="overrides, such as policy.frames=4"
        )

    def build_states(self) -> StreamStates:
        """Return the state of a new stream."""
        return StreamStates()

    def to(self, device: str, *args: Any, **kwargs: Any) -> None:
        """Move the system to a device; the precision is that of the system's configuration."""
        self.system.to(device)

    def receive(self, states: StreamStates) -> Action:
        """Send the new audio of a stream to the system and return the output.

        Raises:
            ZooError: The audio or the language does not fit the system.
        """
        if isinstance(states.tgt_lang, str):
            check_language("target", states.tgt_lang, self.system.target_language.code)
        samples, states.source = states.source, []
        if samples:
            check_rate(states.source_sample_rate)
        if states.stream is None:
            states.stream = LiveStream(self.system)
        return states.stream.receive(
            torch.tensor(samples, dtype=torch.float32), final=states.source_finished
        )


class SpeechToText(SystemAgent, SpeechToTextAgent):  # type: ignore[misc]  # SimulEval has no types
    """A system of the zoo that writes text.

    Args:
        args: SimulEval's arguments with those of ``add_args``.
    """

    def __init__(self, args: Namespace) -> None:
        self.system = loaded_system(args.zoo, args.zoo_overrides, device=args.device)
        if self.system.policy.revises:
            raise ZooError(
                f"System {self.system.name!r} revises its output, which SimulEval cannot record; "
                "use evaluate.py, or simulstream."
            )
        super().__init__(args)

    def policy(self, states: StreamStates | None = None) -> ReadAction | WriteAction:
        """Write the text of the newest audio, or read if there is none."""
        states = self.states if states is None else states
        action = self.receive(states)
        if not action.text.strip() and not states.source_finished:
            return ReadAction()
        return WriteAction(action.text.strip(), finished=states.source_finished)


class SpeechToSpeech(
    SystemAgent,
    SpeechToSpeechAgent,  # type: ignore[misc]  # SimulEval has no types
):
    """A system of the zoo that synthesises speech.

    Args:
        args: SimulEval's arguments with those of ``add_args``.

    Raises:
        ZooError: The system has no synthesizer.
    """

    def __init__(self, args: Namespace) -> None:
        self.system = loaded_system(args.zoo, args.zoo_overrides, device=args.device)
        if self.system.synthesizer is None:
            raise ZooError(
                f"System {self.system.name!r} writes text only; add --zoo-overrides "
                "synthesizer=espeak, or use zoo.extras.interop.simuleval.SpeechToText."
            )
        super().__init__(args)

    def policy(self, states: StreamStates | None = None) -> ReadAction | WriteAction:
        """Write the speech of the newest audio, or read if there is none."""
        states = self.states if states is None else states
        speech = self.receive(states).speech
        samples = [] if speech is None else speech.tolist()
        if not samples and not states.source_finished:
            return ReadAction()
        # SimulEval needs the sample rate, which only a segment has.
        segment = SpeechSegment(
            content=samples, sample_rate=SAMPLE_RATE, finished=states.source_finished
        )
        return WriteAction(segment, finished=states.source_finished)
