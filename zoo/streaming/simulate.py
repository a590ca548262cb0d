"""Simulated streaming: feeds talks to a system chunk by chunk and measures its compute time."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch
from torch import Tensor

from zoo.base.languages import Language
from zoo.base.machine.devices import pending_work
from zoo.base.types import (
    SAMPLE_RATE,
    Action,
    ChunkTime,
    Emission,
    Instance,
    Samples,
    Seconds,
    SpeechChunk,
    SpeechOutput,
    StageTimes,
    StreamEvent,
    queue_finish_times,
)
from zoo.streaming.session import Session
from zoo.streaming.spool import SpeechSpool
from zoo.streaming.stages import StageMeter, measure_stages


class SimulatedSystem(Protocol):
    """Interface of a system that can be simulated, such as ``StreamingSystem``."""

    target_language: Language

    def open(self, talk: str, *, segments: Sequence[tuple[Seconds, Seconds]] = ()) -> Session:
        """Return the session of a new stream.

        Args:
            talk: Name of the talk.
            segments: (begin, end) of the reference segments in seconds, if known.
        """

    def step(self, sessions: Sequence[Session], chunks: Sequence[SpeechChunk]) -> list[Action]:
        """Process one chunk of each stream and return the output of each."""


@dataclass(frozen=True, slots=True)
class Source:
    """A stream to translate.

    Attributes:
        talk: Name of the talk.
        chunks: (n,) samples in order of arrival, all of one size except the last. A live source
            yields ``SpeechChunk`` and marks its last one itself.
        reference: Reference translation.
        segments: (begin, end) of the reference segments in seconds, for systems that use them
            (SimulST).
        index: Position of the stream in the evaluation. None: its position among the sources.
        excerpt: Whether it is a reference segment of a longer recording.
    """

    talk: str
    chunks: Iterable[Tensor | SpeechChunk]
    reference: str = ""
    segments: Sequence[tuple[Seconds, Seconds]] = ()
    index: int | None = None
    excerpt: bool = False


@dataclass(slots=True, eq=False)
class Stream:
    """A live stream.

    Attributes:
        index: Position of the stream in the evaluation.
        source: The source that is streamed.
        session: State of the stream in the system.
        chunks: Chunks that have not been received yet.
        times: Timing of each received chunk.
        emissions: Outputs of the system so far.
        events: Events so far. A transcript equal to the last one is left out.
        transcript: Text of the last transcript.
        received: Samples received so far.
        newest: Duration of the newest chunk in seconds.
        stages: Seconds of compute by stage; the streams of a batch share them equally.
        cpu: Seconds of compute in which this thread ran on a CPU, shared in the same way.
        speech: Keeps the target speech of the outputs.
    """

    index: int
    source: Source
    session: Session
    chunks: Iterator[SpeechChunk]
    times: list[ChunkTime] = field(default_factory=list)
    emissions: list[Emission] = field(default_factory=list)
    events: list[StreamEvent] = field(default_factory=list)
    transcript: str = ""
    received: Samples = 0
    newest: Seconds = 0.0
    stages: dict[str, Seconds] = field(default_factory=dict)
    cpu: Seconds = 0.0
    speech: SpeechSpool = field(default_factory=SpeechSpool)

    def add_events(self, events: Sequence[StreamEvent]) -> None:
        """Append the events of the newest chunk, whose time is not in ``times`` yet.

        The silence that a system appends to a source is no part of its time line.
        """
        end = self.received / SAMPLE_RATE
        for event in events:
            if event.kind == "transcript":
                if event.text == self.transcript:
                    continue
                self.transcript = event.text
            self.events.append(replace(event, at=min(event.at, end), chunk=len(self.times)))

    def add_compute(self, meter: StageMeter, cpu: Seconds, *, streams: int) -> None:
        """Add the stream's share of the compute of a step.

        Args:
            meter: Seconds by stage of the step.
            cpu: Seconds in which this thread ran on a CPU.
            streams: Number of streams that share the step.
        """
        for name, seconds in meter.seconds.items():
            self.stages[name] = self.stages.get(name, 0.0) + seconds / streams
        self.cpu += cpu / streams

    def retract(self, characters: int) -> None:
        """Delete characters at the end of the text of the outputs so far; speech stays."""
        deleted: list[tuple[str, int]] = []
        for index in range(len(self.emissions) - 1, -1, -1):
            if not characters:
                break
            emission = self.emissions[index]
            kept = max(len(emission.text) - characters, 0)
            characters -= len(emission.text) - kept
            deleted.insert(0, (emission.text[kept:], emission.chunk))
            self.emissions[index] = replace(emission, text=emission.text[:kept])
        if revision := StreamEvent.revision(deleted, at=self.received / SAMPLE_RATE):
            self.add_events([revision])


def simulate(
    system: SimulatedSystem,
    sources: Iterable[Source],
    *,
    batch_size: int = 1,
    on_chunk: Callable[[Stream], None] | None = None,
) -> Iterator[Instance]:
    """Stream every source to its end.

    Args:
        system: The system to stream through.
        sources: Streams to translate.
        batch_size: Number of streams that advance in lockstep. The slot of a finished stream is
            refilled with the next source.
        on_chunk: Called with a stream after each of its chunks, at the moment of the output.

    Yields:
        One instance per source, in the order in which streams finish.
    """
    waiting = enumerate(sources)
    live: list[Stream] = []

    while True:
        while len(live) < batch_size and (item := next(waiting, None)) is not None:
            position, source = item
            index = position if source.index is None else source.index
            session = system.open(source.talk, segments=source.segments)
            chunks = mark_final(source.chunks, excerpt=source.excerpt)
            live.append(Stream(index, source, session, chunks))
        if not live:
            return

        advance(system, live, on_chunk)
        finished = [stream for stream in live if stream.session.source_ended]
        for stream in finished:
            live.remove(stream)
            yield to_instance(stream, system.target_language, batched=batch_size > 1)


def warm_up(system: SimulatedSystem, source: Source) -> None:
    """Stream a source until the system writes, and discard the output.

    The first steps of a process do work that later ones do not repeat: memory is allocated, weights
    are read from disk, kernels are chosen. Without a warm-up it would count as latency. The state
    of torch's random number generators is restored.

    Args:
        system: The system.
        source: The stream.
    """
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices=devices):
        session = system.open(source.talk, segments=source.segments)
        for chunk in mark_final(source.chunks):
            (action,) = system.step([session], [chunk])
            if action.text.strip():
                return


def advance(
    system: SimulatedSystem, live: list[Stream], on_chunk: Callable[[Stream], None] | None
) -> None:
    """Process one chunk of every live stream; the batch is timed as one computation.

    Args:
        system: The system that receives the chunks.
        live: Live streams. The outputs, events and times of the chunk are appended to each stream.
        on_chunk: Called with a stream after each of its chunks, at the moment of the output.
    """
    chunks = [next(stream.chunks) for stream in live]
    meter = StageMeter(time.perf_counter, pending_work())
    start = time.thread_time()
    with measure_stages(meter):
        actions = system.step([stream.session for stream in live], chunks)
    cpu = time.thread_time() - start
    compute = sum(meter.seconds.values())

    for stream, chunk, action in zip(live, chunks, actions, strict=True):
        stream.received += chunk.samples.numel()
        stream.newest = chunk.samples.numel() / SAMPLE_RATE
        arrival = stream.received / SAMPLE_RATE
        stream.retract(action.retracted)
        if action.text or action.speech is not None:
            speech = None if action.speech is None else stream.speech.add(action.speech)
            stream.emissions.append(Emission(action.text, arrival, len(stream.times), speech))
        stream.add_events(action.events)
        stream.times.append(ChunkTime(arrival, compute))
        stream.add_compute(meter, cpu, streams=len(live))

        if on_chunk:
            on_chunk(stream)


def mark_final(
    chunks: Iterable[Tensor | SpeechChunk], *, excerpt: bool = False
) -> Iterator[SpeechChunk]:
    """Mark the last chunk as final. A source without audio yields one empty final chunk.

    Samples are held until the next ones show that they are not the last. A ``SpeechChunk`` of a
    live source passes at once.
    """
    previous: Tensor | None = None
    for chunk in chunks:
        if isinstance(chunk, SpeechChunk):
            yield chunk
            if chunk.final:
                return
            continue
        if previous is not None:
            yield SpeechChunk(previous)
        previous = chunk
    last = torch.zeros(0) if previous is None else previous
    yield SpeechChunk(last, final=True, excerpt=excerpt)


def to_instance(stream: Stream, target: Language, *, batched: bool) -> Instance:
    """Convert the emissions of a finished stream to units and speech with their times.

    A unit gets the delay of the emission that completes it. Elapsed times follow the ``queue``
    convention.

    Args:
        stream: Stream that has received its last chunk.
        target: Language of the text, which defines the units.
        batched: Whether several streams shared the compute.
    """
    text = "".join(emission.text for emission in stream.emissions)
    emission_of_character = [emission for emission in stream.emissions for _ in emission.text]
    units, ends = locate_units(text, target)
    emissions = [emission_of_character[end - 1] for end in ends]
    finished = queue_finish_times(stream.times)

    return Instance(
        index=stream.index,
        talk=stream.source.talk,
        source_length=stream.received / SAMPLE_RATE,
        text=text,
        units=tuple(units),
        delays=tuple(emission.delay for emission in emissions),
        elapsed=tuple(finished[emission.chunk] for emission in emissions),
        reference=stream.source.reference,
        unit=target.unit,
        chunk_indices=tuple(emission.chunk for emission in emissions),
        chunks=tuple(stream.times),
        speech=tuple(speech_outputs(stream.emissions, finished)),
        batched=batched,
        events=tuple(stream.events),
        stages=StageTimes(stream.stages, stream.cpu),
    )


def speech_outputs(
    emissions: Sequence[Emission], finished: Sequence[Seconds]
) -> Iterator[SpeechOutput]:
    """Yield the target speech of all emissions that have some.

    Args:
        emissions: Outputs of the system, in order.
        finished: Seconds since the stream began at which each chunk was done.
    """
    for emission in emissions:
        if emission.speech is not None and emission.speech.numel():
            yield SpeechOutput(
                samples=emission.speech,
                delay=emission.delay,
                elapsed=finished[emission.chunk],
                chunk=emission.chunk,
                text=emission.text.strip(),
            )


def locate_units(text: str, target: Language) -> tuple[list[str], list[int]]:
    """Split a text into units and locate them.

    Returns:
        The units and, for each, the position after its last character.
    """
    units = target.units(text)
    ends: list[int] = []
    position = 0
    for unit in units:
        position = text.index(unit, position) + len(unit)
        ends.append(position)
    return units, ends
