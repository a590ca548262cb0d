"""A streaming system: backbone + policy + history (+ synthesizer). One chunk in, words out; it never reads a clock."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import lightning
import torch
from torch import Tensor

from zoo.backbones.base import Backbone
from zoo.errors import ZooError
from zoo.history.base import History
from zoo.languages import language
from zoo.policies.base import Policy
from zoo.streaming.session import Session, SpeechRequest
from zoo.streaming.text import TextStream
from zoo.synthesizers.base import Synthesizer
from zoo.systems.binding import bind
from zoo.types import (
    SAMPLE_RATE,
    Action,
    Capability,
    Cut,
    Decision,
    Hypothesis,
    Request,
    Samples,
    Seconds,
    SpeechChunk,
    Task,
)


@dataclass(frozen=True, slots=True)
class Knob:
    """The setting that trades latency for quality: ``attribute`` of the system (dotted) takes each of ``values``.

    least: no value below makes sense.
    """

    name: str
    attribute: str
    values: Sequence[float]
    least: float = 1

    def check(self, value: float) -> None:
        """Raise ZooError for a value that is too small, or no whole number where all of ``values`` are."""
        whole = all(isinstance(known, int) for known in self.values)
        if value < self.least or (whole and not isinstance(value, int)):
            kind = "a whole number" if whole else "a number"
            raise ZooError(
                f"Knob {self.name} must be {kind} of at least {self.least:g}, not {value:g}."
            )


Question = (
    Request | SpeechRequest
)  # a request is answered with a Hypothesis, a write with its speech
Answer = Hypothesis | Tensor
Turn = Generator[Question, Any, Action]


class StreamingSystem(lightning.LightningModule):
    """What a config names: one backbone, one policy, one history, one language direction.

    chunk_seconds x latency_multiplier is the audio each step takes. Raises ZooError when the parts do not fit.
    """

    def __init__(
        self,
        *,
        name: str,
        backbone: Backbone,
        policy: Policy,
        history: History,
        source_language: str,
        target_language: str,
        chunk_seconds: Seconds,
        latency_multiplier: int = 1,
        synthesizer: Synthesizer | None = None,
        knob: Knob | None = None,
    ) -> None:
        super().__init__()
        if chunk_seconds <= 0 or latency_multiplier < 1:
            raise ZooError(
                f"System {name!r} needs chunk_seconds above 0 and a latency_multiplier of at least 1, "
                f"not {chunk_seconds} and {latency_multiplier}."
            )
        self.needs: frozenset[Capability] = bind(backbone, policy, history, synthesizer)
        self.name = name
        self.source_language = language(source_language)
        self.target_language = language(target_language)
        if synthesizer:
            synthesizer.check(self.target_language)
        self.backbone = backbone
        self.policy = policy
        self.history = history
        self.synthesizer = synthesizer
        self.chunk_seconds = chunk_seconds
        self.latency_multiplier = latency_multiplier
        self.knob = knob
        self._loaded = False

    def configure_model(self) -> None:
        """Load weights once (Lightning may call this more than once)."""
        if not self._loaded:
            self.backbone.load()
            if self.synthesizer:
                self.synthesizer.load(self.backbone)
            self._loaded = True

    @property
    def direction(self) -> str:
        """Language direction, as in ``en-de``."""
        return f"{self.source_language.code}-{self.target_language.code}"

    @property
    def chunk_samples(self) -> Samples:
        """Source samples per step."""
        return round(self.chunk_seconds * self.latency_multiplier * SAMPLE_RATE)

    def turn_knob(self, value: float) -> None:
        """Set the latency knob. Raises ZooError when the system has none, or none that takes this value."""
        owner, attribute = self.check_knob(value)
        setattr(owner, attribute, value)

    def check_knob(self, value: float) -> tuple[object, str]:
        """What the knob sets, known before weights are loaded: owner and attribute.

        Raises ZooError as ``turn_knob`` does.
        """
        if self.knob is None:
            raise ZooError(f"System {self.name!r} has no latency knob.")
        self.knob.check(value)
        *path, last = self.knob.attribute.split(".")
        owner: object = self
        for part in path:
            owner = getattr(owner, part, None)
        if not hasattr(owner, last):
            raise ZooError(
                f"The knob {self.knob.name!r} of system {self.name!r} sets {self.knob.attribute}, which it lacks with "
                f"policy {type(self.policy).__name__}; set system.knob=null, or name, attribute, values and least of "
                f"another knob."
            )
        return owner, last

    def open(self, talk: str, *, segments: Sequence[tuple[Seconds, Seconds]] = ()) -> Session:
        """A new stream. talk: its name. segments: begin and end of its reference segments, where they are known."""
        text = TextStream(decode=self.backbone.text, separator=self.target_language.separator)
        session = Session(
            talk=talk,
            source_language=self.source_language,
            target_language=self.target_language,
            frame_samples=self.backbone.frame_samples,
            text_stream=text,
            latency_multiplier=self.latency_multiplier,
            segments=tuple(
                (round(begin * SAMPLE_RATE), round(end * SAMPLE_RATE)) for begin, end in segments
            ),
        )
        session.policy_state, session.history_state = self.policy.open(), self.history.open()
        session.backbone_state = self.backbone.open(session)
        session.synthesizer_state = self.synthesizer.open(session) if self.synthesizer else None
        return session

    @torch.inference_mode()
    def step(self, sessions: Sequence[Session], chunks: Sequence[SpeechChunk]) -> list[Action]:
        """Feed one chunk to each live stream and return what each one writes.

        The streams share every call: all that ask or write at the same moment are answered as a batch.
        """
        for session, chunk in zip(sessions, chunks, strict=True):
            session.receive(chunk)
        turns: list[Turn] = [self._turn(session) for session in sessions]
        actions: list[Action] = [Action()] * len(turns)
        answers: dict[int, Answer | None] = dict.fromkeys(range(len(turns)))
        while answers:
            questions: dict[int, Question] = {}
            for stream, answer in answers.items():
                try:
                    questions[stream] = turns[stream].send(answer)
                except StopIteration as stop:
                    actions[stream] = stop.value
            answers = {**self._decoded(sessions, questions), **self._spoken(questions)}
        return actions

    def _decoded(
        self, sessions: Sequence[Session], questions: Mapping[int, Question]
    ) -> dict[int, Answer]:
        """Answers to the requests, by stream."""
        requests = {
            stream: asked for stream, asked in questions.items() if isinstance(asked, Request)
        }
        asking = [sessions[stream] for stream in requests]
        answers = (
            self.backbone.decode(asking, list(requests.values()), self.needs) if requests else []
        )
        return dict(zip(requests, answers, strict=True))

    def _spoken(self, questions: Mapping[int, Question]) -> dict[int, Answer]:
        """Speech of the writes, by stream."""
        writes = {
            stream: asked for stream, asked in questions.items() if isinstance(asked, SpeechRequest)
        }
        waves = (
            self.synthesizer.synthesize(list(writes.values()))
            if self.synthesizer and writes
            else []
        )
        # Copies: a tail cut off a longer wave would keep all of it alive until the stream ends.
        return {
            stream: wave.float().cpu().clone() for stream, wave in zip(writes, waves, strict=True)
        }

    def _turn(self, session: Session) -> Turn:
        """All that one stream does after one chunk: find the onset, flush ended segments, decide, write, forget."""
        written: list[Action] = []
        if session.last_chunk_samples == 0 and not session.source_ended:
            return (
                Action()
            )  # nothing new was heard: a second look at the same audio is no new evidence
        hypothesis: Hypothesis | None = None
        while session.kept_frames and (onset := self.history.onset(session)) is not None:
            self._forget(session, Cut(frames=onset))
            if not (end := self.history.boundary(session)):
                hypothesis = yield from self._advance(session, written)
                break
            session.segment_end = end
            yield from self._advance(session, written)
            self._forget(
                session, Cut(tokens=session.prefix_ids.numel(), frames=session.visible_frames)
            )
            session.segment_end, session.policy_state = None, self.policy.open()
        self._forget(session, self.history.trim(session, hypothesis))
        return _joined(written)

    def _advance(
        self, session: Session, written: list[Action]
    ) -> Generator[Question, Any, Hypothesis | None]:
        """Decide and write until the policy looks no further; the last hypothesis, if it still fits the session."""
        while True:
            hypothesis, decision = yield from self._decide(session)
            action = yield from self._write(session, hypothesis, decision.write)
            written.append(action)
            if decision.cut:
                self._forget(session, decision.cut)
            if not decision.repeat:
                return None if decision.cut else hypothesis

    def _decide(
        self, session: Session
    ) -> Generator[Question, Any, tuple[Hypothesis | None, Decision]]:
        """Run the policy once, to its decision and the translation it is about (None: it asked for none).

        Where no audio is left to look at, there is nothing to ask.
        """
        if session.visible_frames == 0:
            return None, Decision(write=0)
        asking = self.policy.decide(session, session.policy_state)
        answer: Hypothesis | None = None
        translation: Hypothesis | None = None
        while True:
            try:
                request = asking.send(answer)  # type: ignore[arg-type]
            except StopIteration as stop:
                return translation, stop.value
            answer = yield request
            if request.task is Task.TRANSLATION:
                translation = answer

    def _write(self, session: Session, hypothesis: Hypothesis | None, tokens: int) -> Turn:
        """Write the first ``tokens`` new tokens; a speaking system asks for their speech while they are still new."""
        if hypothesis is None:
            return Action()
        if tokens and hypothesis.prefix_length != session.prefix_ids.numel():
            raise ValueError(
                f"The hypothesis follows {hypothesis.prefix_length} tokens; {session.prefix_ids.numel()} are kept."
            )
        new = hypothesis.token_ids[:tokens]
        text = session.text_stream.push(new, fresh=hypothesis.prefix_length == 0)
        speech = (
            (yield SpeechRequest(session, hypothesis, tokens, text))
            if self.synthesizer and tokens
            else None
        )
        self.backbone.commit(session, hypothesis, tokens)
        session.prefix_ids = torch.cat([session.prefix_ids, new.to(session.prefix_ids)])
        return Action(text=text, speech=speech)

    def _forget(self, session: Session, cut: Cut) -> None:
        if cut:
            self.backbone.forget(session, cut)
            session.forget(cut)


def _joined(actions: list[Action]) -> Action:
    speech = [action.speech for action in actions if action.speech is not None]
    return Action("".join(action.text for action in actions), torch.cat(speech) if speech else None)
