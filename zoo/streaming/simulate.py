"""Feeds talks to a system chunk by chunk and measures compute time: the only place that reads the clock."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from zoo.languages import Language
from zoo.streaming.session import Session
from zoo.types import (
    SAMPLE_RATE,
    Action,
    ChunkTime,
    Emission,
    Instance,
    Samples,
    Seconds,
    SpeechChunk,
    SpeechOutput,
    queue_finish_times,
)


class SimulatedSystem(Protocol):
    """What a simulation needs of a system, such as ``zoo.systems.base.StreamingSystem``."""

    target_language: Language

    def open(self, talk: str, *, segments: Sequence[tuple[Seconds, Seconds]] = ()) -> Session:
        """A new stream. segments: (begin, end) of its reference segments, where they are known."""

    def step(self, sessions: Sequence[Session], chunks: Sequence[SpeechChunk]) -> list[Action]:
        """Feed one chunk to each stream and return what each emits."""


@dataclass(frozen=True, slots=True)
class Source:
    """One stream to translate. chunks: samples (n,) in arrival order, all of one size but the last.

    segments: (begin, end) in seconds of the reference segments, for systems that are given them
    (SimulST).
    """

    talk: str
    chunks: Iterable[Tensor]
    reference: str = ""
    segments: Sequence[tuple[Seconds, Seconds]] = ()


@dataclass(slots=True, eq=False)
class Stream:
    """A live slot: the session, what is still to come and what was written when."""

    index: int
    source: Source
    session: Session
    chunks: Iterator[SpeechChunk]
    times: list[ChunkTime] = field(default_factory=list)
    emissions: list[Emission] = field(default_factory=list)
    received: Samples = 0


def simulate(
    system: SimulatedSystem,
    sources: Iterable[Source],
    *,
    batch_size: int = 1,
    on_chunk: Callable[[Seconds], None] | None = None,
) -> Iterator[Instance]:
    """Stream every source to its end; at most ``batch_size`` advance in lockstep, finished slots are refilled.

    Yields one Instance per source as it finishes (``index`` counts sources). on_chunk(seconds) reports progress.
    """
    waiting = enumerate(sources)
    live: list[Stream] = []
    while True:
        while len(live) < batch_size and (item := next(waiting, None)) is not None:
            index, source = item
            session = system.open(source.talk, segments=source.segments)
            live.append(Stream(index, source, session, mark_final(source.chunks)))
        if not live:
            return
        step(system, live, on_chunk)
        for stream in [stream for stream in live if stream.session.source_ended]:
            live.remove(stream)
            yield finish(stream, system.target_language, batched=batch_size > 1)


def step(
    system: SimulatedSystem, live: list[Stream], on_chunk: Callable[[Seconds], None] | None
) -> None:
    """One chunk to every live stream, timed as one computation."""
    chunks = [next(stream.chunks) for stream in live]
    begun = time.perf_counter()
    actions = system.step([stream.session for stream in live], chunks)
    compute = time.perf_counter() - begun
    for stream, chunk, action in zip(live, chunks, actions, strict=True):
        stream.received += chunk.samples.numel()
        arrival = stream.received / SAMPLE_RATE
        if action.text or action.speech is not None:
            stream.emissions.append(
                Emission(action.text, arrival, len(stream.times), action.speech)
            )
        stream.times.append(ChunkTime(arrival, compute))
        if on_chunk:
            on_chunk(chunk.samples.numel() / SAMPLE_RATE)


def mark_final(chunks: Iterable[Tensor]) -> Iterator[SpeechChunk]:
    """Mark the last chunk as final; a source without audio is one final chunk of no samples."""
    before: Tensor | None = None
    for samples in chunks:
        if before is not None:
            yield SpeechChunk(before)
        before = samples
    yield SpeechChunk(torch.zeros(0) if before is None else before, final=True)


def finish(stream: Stream, target: Language, *, batched: bool) -> Instance:
    """Turn what was written into units with delays, and what was said into speech with the same clock.

    elapsed follows the live queue (METRICS, ``queue``).
    """
    text = "".join(emission.text for emission in stream.emissions)
    written_at = [index for index, emission in enumerate(stream.emissions) for _ in emission.text]
    units, ends = locate_units(text, target)
    emissions = [stream.emissions[written_at[end - 1]] for end in ends]
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
        speech=tuple(spoken(stream.emissions, finished)),
        batched=batched,
    )


def spoken(emissions: Sequence[Emission], finished: Sequence[Seconds]) -> Iterator[SpeechOutput]:
    """What was said; ``finished``: when each chunk was done.

    An emission without a sample of speech is not there.
    """
    for emission in emissions:
        if emission.speech is not None and emission.speech.numel():
            elapsed = finished[emission.chunk]
            yield SpeechOutput(
                emission.speech, emission.delay, elapsed, emission.chunk, emission.text.strip()
            )


def locate_units(text: str, target: Language) -> tuple[list[str], list[int]]:
    """Units of ``text`` and the position after each one's last character: a unit counts when it is whole."""
    units = target.units(text)
    ends: list[int] = []
    position = 0
    for unit in units:
        position = text.index(unit, position) + len(unit)
        ends.append(position)
    return units, ends
