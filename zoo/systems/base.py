"""The streaming system: a backbone, a policy, a history and optionally a synthesizer."""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, get_args

import torch
from lightning.pytorch.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor

from zoo.backbones.base import Backbone
from zoo.base.errors import ZooError, check_choice, check_numbers
from zoo.base.languages import Language
from zoo.base.machine.int8 import quantise
from zoo.base.talks import Talk
from zoo.base.types import (
    NO_CONTEXT,
    SAMPLE_RATE,
    Action,
    Cut,
    Decision,
    EventKind,
    Hypothesis,
    Request,
    Seconds,
    SpeechChunk,
    StreamEvent,
    Task,
)
from zoo.history.base import History
from zoo.history.reference_segments import ReferenceSegments
from zoo.policies.base import Policy
from zoo.streaming.session import Session, SpeechRequest
from zoo.streaming.stages import stage
from zoo.streaming.text import TextStream
from zoo.synthesizers.base import Synthesizer
from zoo.systems.binding import bind, check_languages
from zoo.systems.context.base import ContextSource
from zoo.systems.limits import audio_problem, in_samples
from zoo.systems.plan import TrainingPlan
from zoo.systems.playback.base import Playback, PlaybackState
from zoo.systems.steps import (
    StepOrder,
    concatenate,
    play_speech,
    record_missing_output,
    record_transcript,
    revise_output,
    tokens_to_drop,
    with_end_silence,
)
from zoo.systems.system import Knob
from zoo.systems.translating import TranslatingSystem

# The coroutine of one stream yields requests to the backbone and to the synthesizer.
# It receives a hypothesis for the former and a waveform for the latter.
StreamRequest = Request | SpeechRequest
StreamResponse = Hypothesis | Tensor
StreamStep = Generator[StreamRequest, Any, Action]


class StreamingSystem(TranslatingSystem):
    """A backbone, a policy and a history for one language direction.

    Each step processes ``chunk_seconds * latency_multiplier`` seconds of audio.

    Args:
        name: Name of the system in results.
        backbone: The network.
        policy: Decides how much of a hypothesis is written.
        history: Decides which audio and text are dropped.
        source_language: Code of the source language.
        target_language: Code of the target language.
        chunk_seconds: Duration of a base chunk in seconds.
        latency_multiplier: Number of base chunks per step.
        synthesizer: Generates target speech. None: text output only.
        playback: Shortens target speech while its playback is behind. None: nothing does.
        context: Reads what prompts contain besides the speech. None: nothing.
        step_order: Order of the last two parts of a step: ``speech_first`` synthesises new words
            with all text that was kept before them; ``history_first`` only with the text that the
            history keeps with them (the order of SimulU's steps 4 and 5).
        end_silence_seconds: Silence that follows the last chunk of a source. Networks lose words
            that end with the audio. No duration, delay or other time includes it; 0: none.
        knob: The latency setting of the system. None: no latency setting.

    Raises:
        ZooError: The parts do not fit together, or a number is out of range.
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
        playback: Playback | None = None,
        context: ContextSource | None = None,
        step_order: StepOrder = "speech_first",
        end_silence_seconds: Seconds = 0.1,
        knob: Knob | None = None,
    ) -> None:
        super().__init__(
            name=name,
            source_language=source_language,
            target_language=target_language,
            chunk_seconds=chunk_seconds,
            latency_multiplier=latency_multiplier,
            knob=knob,
        )
        check_choice("system.step_order", step_order, get_args(StepOrder))
        check_numbers(f"System {name!r}", least=0, most=10, end_silence_seconds=end_silence_seconds)
        history.guard(by_default=backbone.guarded)
        self.needs = bind(backbone, policy, history, synthesizer, context, playback)
        check_languages(backbone, synthesizer, self.source_language, self.target_language)

        self.backbone = backbone
        self.policy = policy
        self.history = history
        self.synthesizer = synthesizer
        self.playback = playback
        self.context = context
        self.step_order = step_order
        self.end_silence_seconds = end_silence_seconds
        if knob and not knob.values:
            self.knob = replace(knob, values=backbone.knob_values.get(knob.attribute, ()))
        self._loaded = False
        self._shared = False  # whether another system has loaded the backbone
        self._arranged = False  # whether weights have the layout for streaming
        self.training_plan: TrainingPlan[StreamingSystem] | None = None  # trainer.fit needs one

    def load(self) -> None:
        """Load the weights of backbone and synthesizer, once."""
        if self._loaded:
            return
        if not self._shared:
            self.backbone.load()
        if self.synthesizer:
            self.synthesizer.load(self.backbone)
        self._loaded = True

    def configure_model(self) -> None:
        """Load weights once; Lightning may call this hook more than once."""
        self.load()
        if self.training_plan:
            self.training_plan.prepare(self)

    def _described_parts(self) -> list[str]:
        """Return the classes of the parts; see ``System``."""
        parts = {
            "backbone": self.backbone,
            "policy": self.policy,
            "history": self.history,
            "synthesizer": self.synthesizer,
            "playback": self.playback,
            "context": self.context,
        }
        return [f"{name}={type(part).__name__}" for name, part in parts.items() if part is not None]

    @property
    def parts(self) -> str:
        """The parts on which the attributes of the system depend, for messages."""
        return f"policy {type(self.policy).__name__}"

    @property
    def uses_reference_segments(self) -> bool:
        """Whether the history is that of reference segments."""
        return isinstance(self.history, ReferenceSegments)

    @property
    def emits_speech(self) -> bool:
        """Whether the system has a synthesizer."""
        return self.synthesizer is not None

    def share_backbone(self, other: "StreamingSystem") -> None:
        """Use the backbone of a system that is loaded earlier, whose configuration is the same."""
        self.backbone, self._shared = other.backbone, True

    def share_weights(self, other: "StreamingSystem") -> None:
        """Use backbone and synthesizer of a loaded system that differs in its latency alone."""
        self.share_backbone(other)
        self.synthesizer, self._loaded = other.synthesizer, True

    @contextmanager
    def translating(self, source: Language, target: Language) -> Iterator[None]:
        """Translate from ``source`` to ``target`` in the ``with`` block, text only."""
        previous = self.source_language, self.target_language
        self.source_language, self.target_language = source, target
        try:
            yield
        finally:
            self.source_language, self.target_language = previous

    def open(self, talk: str, *, segments: Sequence[tuple[Seconds, Seconds]] = ()) -> Session:
        """Open a stream; see ``System``."""
        if not self._arranged and self.training_plan is None:
            quantise(self.backbone.int8_layers())
            self.backbone.arrange()
            self._arranged = True
        session = Session(
            talk=talk,
            source_language=self.source_language,
            target_language=self.target_language,
            frame_samples=self.backbone.frame_samples,
            text_stream=TextStream(
                decode=self.backbone.text, separator=self.target_language.separator
            ),
            latency_multiplier=self.latency_multiplier,
            longest_input=self.backbone.longest_input,
            segments=in_samples(segments),
            context=self.context.context(talk) if self.context and talk else NO_CONTEXT,
        )

        session.policy_state, session.history_state = self.policy.open(), self.history.open()
        session.backbone_state = self.backbone.open(session)
        session.synthesizer_state = self.synthesizer.open(session) if self.synthesizer else None
        session.playback_state = PlaybackState()
        return session

    def unnamed_weights(self) -> str | None:
        """Return the key of the backbone's weights if it names none; see ``System``."""
        argument = self.backbone.unnamed_weights()
        return None if argument is None else f"backbone.{argument}"

    def talk_problem(self, talks: Sequence[Talk], *, whole: bool = False) -> str | None:
        """Compare the longest kept audio with the backbone's limit, and read the context of talks.

        See ``System``.
        """
        if self.context is not None:
            for talk in talks:
                try:
                    self.context.context(talk.name)
                except ZooError as error:
                    return str(error)
        return audio_problem(
            talks,
            name=self.name,
            backbone=self.backbone,
            history=self.history,
            policy=self.policy,
            chunk=None if whole else self.chunk_samples,
        )

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """Return the loss of a batch of training examples, a scalar."""
        return self._plan.loss(self, batch, batch_idx)

    def train_dataloader(self) -> Iterable[Any]:
        """Return the loader of the training plan."""
        return self._plan.loader(self.trainer)

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """Freeze and unfreeze parameters as the training plan demands."""
        self._plan.begin_batch(self)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add what the training plan needs to resume."""
        if self.training_plan:
            self.training_plan.complete_checkpoint(self, checkpoint)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Have the training plan check and adapt a checkpoint of a training."""
        if self.training_plan:
            self.training_plan.check_checkpoint(self, checkpoint)

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        """Return the optimizer of the training plan."""
        return self._plan.optimizers(self)

    @property
    def _plan(self) -> TrainingPlan["StreamingSystem"]:
        """The training plan. Raises ZooError without one."""
        if self.training_plan is None:
            raise ZooError(
                f"System {self.name!r} has no training plan; set training_plan, or use train.py."
            )
        return self.training_plan

    @torch.inference_mode()
    def step(self, sessions: Sequence[Session], chunks: Sequence[SpeechChunk]) -> list[Action]:
        """Process one chunk of each stream.

        Requests that several streams make at the same time are answered as one batch.

        Args:
            sessions: Live streams.
            chunks: The next chunk of each stream.

        Returns:
            The output of each stream.
        """
        for session, chunk in zip(sessions, chunks, strict=True):
            session.receive(with_end_silence(chunk, session, self.end_silence_seconds))

        coroutines: list[StreamStep] = [self._stream_step(session) for session in sessions]
        actions: list[Action] = [Action()] * len(coroutines)
        responses: dict[int, StreamResponse | None] = dict.fromkeys(range(len(coroutines)))
        while responses:
            requests: dict[int, StreamRequest] = {}
            for stream, response in responses.items():
                try:
                    with stage("policy"):
                        requests[stream] = coroutines[stream].send(response)
                except StopIteration as stop:
                    actions[stream] = stop.value
            responses = {**self._decode(sessions, requests), **self._synthesize(requests)}
        return play_speech(self.playback, sessions, chunks, actions)

    def _decode(
        self, sessions: Sequence[Session], requests: Mapping[int, StreamRequest]
    ) -> dict[int, StreamResponse]:
        """Answer the requests to the backbone, by stream."""
        batch = {
            stream: request for stream, request in requests.items() if isinstance(request, Request)
        }
        if not batch:
            return {}
        live = [sessions[stream] for stream in batch]
        hypotheses = self.backbone.decode(live, list(batch.values()), self.needs)
        return dict(zip(batch, hypotheses, strict=True))

    @stage("synthesizer")
    def _synthesize(self, requests: Mapping[int, StreamRequest]) -> dict[int, StreamResponse]:
        """Answer the requests to the synthesizer, by stream."""
        batch = {
            stream: request
            for stream, request in requests.items()
            if isinstance(request, SpeechRequest)
        }
        if not batch or self.synthesizer is None:
            return {}
        waveforms = self.synthesizer.synthesize(list(batch.values()))
        # Clone: a slice of a longer waveform would keep all of it in memory until the stream ends.
        return {
            stream: waveform.float().cpu().clone()
            for stream, waveform in zip(batch, waveforms, strict=True)
        }

    def _stream_step(self, session: Session) -> StreamStep:
        """Process the newest chunk of one stream.

        Finds the onset of the next segment, flushes segments that have ended, runs the policy on
        the rest, writes, and trims the history.
        """
        if session.last_chunk_samples == 0 and not session.source_ended:
            # Decoding the same audio twice would give the policy no new evidence.
            return Action()

        actions: list[Action] = []
        hypothesis: Hypothesis | None = None
        while session.kept_frames and (onset := self.history.onset(session)) is not None:
            self._forget(session, Cut(frames=onset), reason=type(self.history).__name__)
            if not (segment_end := self.history.boundary(session)):
                hypothesis = yield from self._decide_and_write(session, actions)
                break

            session.segment_end = segment_end
            yield from self._decide_and_write(session, actions)
            everything = Cut(tokens=session.prefix_ids.numel(), frames=session.visible_frames)
            self._forget(session, everything, "flush", reason=type(self.history).__name__)
            session.segment_end, session.policy_state = None, self.policy.open()
            session.text_stream.begin_text()

        cut = self.history.trim(session, hypothesis)
        self._forget(session, cut, reason=type(self.history).__name__)
        action = concatenate(actions)
        if not self.policy.writes_at_end:
            record_missing_output(session, self.history, has_output=bool(action.text))
        events, session.events = session.events, []
        return replace(action, events=tuple(events))

    def _decide_and_write(
        self, session: Session, actions: list[Action]
    ) -> Generator[StreamRequest, Any, Hypothesis | None]:
        """Run the policy and write until a decision does not repeat and no restart follows.

        Args:
            session: The stream.
            actions: Receives the output of each decision.

        Returns:
            The last hypothesis; None if a cut made its alignment differ from the session.
        """
        while True:
            hypothesis, decision = yield from self._decide(session)
            actions.append((yield from self._write(session, hypothesis, decision)))
            if decision.cut:
                self._forget(session, decision.cut, "truncation", reason=decision.reason)
            if decision.repeat:
                continue
            if hypothesis is None or decision.cut:
                return None
            if self.policy.revises:
                return hypothesis
            restart = self.history.restart_cut(session, hypothesis)
            if restart is None:
                return hypothesis
            self._forget(session, restart, "restart", reason=type(self.history).__name__)
            session.policy_state = self.policy.open()

    def _decide(
        self, session: Session
    ) -> Generator[StreamRequest, Any, tuple[Hypothesis | None, Decision]]:
        """Run the policy once.

        Returns:
            The last translation that the policy requested (None if it requested none) and the
            decision about it. Without visible audio the policy does not run.
        """
        if session.visible_frames == 0:
            return None, Decision(write=0)
        if self.context is not None:
            context = yield from self.context.retrieve(session)
            if context != session.context:
                session.context = context
                self.backbone.change_context(session)

        coroutine = self.policy.decide(session, session.policy_state)
        response: Hypothesis | None = None
        translation: Hypothesis | None = None
        while True:
            try:
                request = coroutine.send(response)  # type: ignore[arg-type]
            except StopIteration as stop:
                return translation, stop.value
            if request.stop_at is not None and self.history.reads_unwritten:
                request = replace(request, stop_at=None)
            response = yield request
            if response.transcript is not None and request.transcript_ids is None:
                record_transcript(session, request, response.transcript)
            if request.task is Task.TRANSLATION:
                translation = response

    def _write(
        self, session: Session, hypothesis: Hypothesis | None, decision: Decision
    ) -> StreamStep:
        """Write the new tokens of a hypothesis that were decided on, and request their speech."""
        if hypothesis is None:
            return Action()
        if self.policy.revises:
            self.backbone.commit(session, hypothesis, 0)  # none of its tokens become a prefix
            return revise_output(session, hypothesis, decision)
        tokens = decision.write
        if tokens and hypothesis.prefix_length != session.prefix_ids.numel():
            raise ValueError(
                f"The hypothesis continues {hypothesis.prefix_length} tokens, but "
                f"{session.prefix_ids.numel()} are kept."
            )

        new_ids = hypothesis.token_ids[:tokens]
        text = session.text_stream.push(new_ids, fresh=hypothesis.prefix_length == 0)
        speech: Tensor | None = None
        if self.synthesizer and tokens:
            # Before the commit: the synthesizer must distinguish new tokens from the prefix.
            dropped = 0
            if self.step_order == "history_first":
                dropped = tokens_to_drop(self.history, session, hypothesis, new_ids)
            speech = yield SpeechRequest(session, hypothesis, tokens, text, dropped)

        self.backbone.commit(session, hypothesis, tokens)
        session.prefix_ids = torch.cat([session.prefix_ids, new_ids.to(session.prefix_ids)])
        return Action(text=text, speech=speech)

    def _forget(
        self, session: Session, cut: Cut, kind: EventKind = "cut", *, reason: str = ""
    ) -> None:
        """Drop the oldest context from the backbone's caches and from the session.

        Args:
            session: The stream; the cut is added to its events.
            cut: Tokens and frames to drop.
            kind: Kind of the event.
            reason: Reason of the event.
        """
        if cut:
            self.backbone.forget(session, cut)
            session.forget(cut)
            start = session.audio_start / SAMPLE_RATE
            session.events.append(
                StreamEvent(kind, start, reason=reason, tokens=cut.tokens, frames=cut.frames)
            )
