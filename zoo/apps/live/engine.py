"""The streams of all users through the loaded systems, in lockstep batches on one thread."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from torch import Tensor

from zoo.apps.live.faults import log_faults
from zoo.base.types import SAMPLE_RATE, ChunkTime, Instance, Seconds, SpeechChunk
from zoo.streaming.buffer import ChunkBuffer
from zoo.streaming.simulate import Source, Stream, advance, to_instance
from zoo.streaming.translation import EmittedText, newest_output
from zoo.systems.base import StreamingSystem

logger = logging.getLogger(__name__)
Clock = Callable[[], Seconds]
WAKE: Seconds = 0.5  # longest wait for audio, after which the thread looks whether it is to end


@dataclass(frozen=True, slots=True)
class Progress:
    """What one chunk of a stream has led to.

    Attributes:
        output: Output of the system, whose ``deleted`` is exactly the end of the text before, with
            its spaces; None: it has emitted nothing.
        transcript: Newest transcript; None: it is the one before, or the system has none.
        lateness: Seconds between the arrival of the last sample of the chunk and the output.
        final: Whether the stream has ended with this chunk.
    """

    output: EmittedText | None
    transcript: str | None
    lateness: Seconds
    final: bool


@dataclass(frozen=True, slots=True)
class Failure:
    """The end of a stream that the system could not process.

    Attributes:
        problem: What went wrong, in one sentence.
    """

    problem: str


Listener = Callable[[Progress | Failure], None]


@dataclass(slots=True, eq=False)
class ServedStream:
    """The stream of one user, which an ``Engine`` changes.

    Attributes:
        system: System that processes the stream.
        stream: Its outputs and times so far.
        listener: Called on the thread of the engine after each chunk.
        buffer: Samples that do not fill a chunk yet.
        waiting: Chunks that are not processed yet, each with the time of its arrival in seconds
            since the stream began.
        began: Time of the clock at which the first sample was spoken; None before it arrives.
        finished: Seconds since then at which the newest chunk was done.
        in_work: Whether the thread of the engine processes a chunk of the stream.
        text: Text that stands.
    """

    system: StreamingSystem
    stream: Stream
    listener: Listener
    buffer: ChunkBuffer
    waiting: deque[tuple[SpeechChunk, Seconds]] = field(default_factory=deque)
    began: Seconds | None = None
    finished: Seconds = 0.0
    in_work: bool = False
    text: str = ""

    def chunks(self) -> Iterator[SpeechChunk]:
        """Yield the chunks, each removed from ``waiting`` when it is asked for."""
        while True:
            yield self.waiting.popleft()[0]

    @property
    def backlog(self) -> Seconds:
        """Seconds of audio that wait to be processed."""
        return sum(chunk.samples.numel() for chunk, _ in tuple(self.waiting)) / SAMPLE_RATE

    def newest_output(self) -> EmittedText | None:
        """Return what the newest chunk has led to, and update ``text``."""
        output = newest_output(self.stream, self.finished)
        if output is None:
            return None
        if output.deleted:
            kept = "".join(one.text for one in self.stream.emissions).removesuffix(output.text)
            output = replace(output, deleted=self.text[len(kept) :])
            self.text = kept
        self.text += output.text
        return output

    def instance(self) -> Instance:
        """Return the output so far, for logs; output of an interrupted chunk is left out."""
        done = len(self.stream.times)
        self.stream.emissions = [one for one in self.stream.emissions if one.chunk < done]
        self.stream.events = [one for one in self.stream.events if one.chunk < done]
        return to_instance(self.stream, self.system.target_language, batched=True)


class Engine:
    """Advances all streams on one thread.

    The thread takes the chunk that waits longest and, with it, one chunk of each other stream of
    the same system that has a whole chunk waiting, up to ``batch_size``, and processes them as one
    batch. So streams join and leave between any two batches, and no stream waits for a slower user.

    Elapsed times of a stream are those of the clock: a chunk that has waited for other streams is
    as late as the user has seen it.

    Args:
        batch_size: Most streams of one batch.
        clock: Returns a time in seconds that never decreases.

    Attributes:
        lateness: Lateness of the newest chunks of all streams, at most 10,000.
    """

    def __init__(self, *, batch_size: int = 8, clock: Clock = time.monotonic) -> None:
        self.lateness: deque[Seconds] = deque(maxlen=10_000)
        self._batch_size = batch_size
        self._clock = clock
        self._streams: list[ServedStream] = []
        self._changed = threading.Condition()
        self._is_open = True
        self._thread = threading.Thread(target=self._run, name="zoo.apps.live", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def backlog(self) -> Seconds:
        """Seconds of audio of all streams that wait to be processed."""
        with self._changed:
            return sum(stream.backlog for stream in self._streams)

    def open(self, system: StreamingSystem, name: str, listener: Listener) -> ServedStream:
        """Add a stream.

        Args:
            system: Loaded system.
            name: Name of the stream in logs.
            listener: Called on the thread of the engine after each chunk.
        """
        stream = Stream(0, Source(name, ()), system.open(name), iter(()))
        served = ServedStream(system, stream, listener, ChunkBuffer(system.chunk_samples))
        stream.chunks = served.chunks()
        with self._changed:
            self._streams.append(served)
        return served

    def receive(self, served: ServedStream, samples: Tensor, *, final: bool = False) -> None:
        """Add audio to a stream.

        Args:
            served: Open stream.
            samples: (n,) float32 at 16 kHz.
            final: Whether the stream ends with these samples.
        """
        now = self._clock()
        with self._changed:
            if served.began is None:
                served.began = now - samples.numel() / SAMPLE_RATE
            for chunk in served.buffer.receive(samples, final=final):
                served.waiting.append((chunk, now - served.began))
            self._changed.notify_all()

    def copy(self, served: ServedStream) -> ServedStream:
        """Return a copy of what a stream has emitted, made between two of its batches."""
        with self._changed:
            self._changed.wait_for(lambda: not served.in_work)
            stream = served.stream
            copied = replace(
                stream,
                emissions=list(stream.emissions),
                times=list(stream.times),
                events=list(stream.events),
            )
            return replace(served, stream=copied)

    def leave(self, served: ServedStream) -> None:
        """Remove a stream, whose waiting audio is not processed, after the batch it is in."""
        with self._changed:
            self._changed.wait_for(lambda: not served.in_work)
            if served in self._streams:
                self._streams.remove(served)

    def close(self) -> None:
        """End the thread after its batch."""
        with self._changed:
            self._is_open = False
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        """Process batches until ``close``."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._next() or not self._is_open, timeout=WAKE)
                if not self._is_open:
                    return
                batch = self._next()
                for served in batch:
                    served.in_work = True
            if batch:
                self._process(batch)

    def _next(self) -> list[ServedStream]:
        """Return the streams of the next batch, the one that waits longest first."""
        ready = [served for served in self._streams if served.waiting]
        ready.sort(key=_arrival)
        return [one for one in ready if one.system is ready[0].system][: self._batch_size]

    def _process(self, batch: list[ServedStream]) -> None:
        """Process one chunk of each stream and call the listeners."""
        chunks = [served.waiting[0] for served in batch]
        results: list[Progress | Failure]
        try:
            advance(batch[0].system, [served.stream for served in batch], None)
            now = self._clock()
            results = [
                self._progress(served, chunk, arrived, now)
                for served, (chunk, arrived) in zip(batch, chunks, strict=True)
            ]
        except Exception as error:
            # The state of these streams is unknown now; other streams go on.
            logger.exception("A batch of %d streams has failed", len(batch))
            results = [Failure(f"{type(error).__name__}: {error}")] * len(batch)
        with self._changed:
            for served, result in zip(batch, results, strict=True):
                served.in_work = False
                if isinstance(result, Failure) or result.final:
                    self._streams.remove(served)
            self._changed.notify_all()
        for served, result in zip(batch, results, strict=True):
            with log_faults(f"The client of {served.stream.source.talk} receives nothing"):
                served.listener(result)

    def _progress(
        self, served: ServedStream, chunk: SpeechChunk, arrived: Seconds, now: Seconds
    ) -> Progress:
        """Set the time of the newest chunk by the clock, and return what it has led to."""
        assert served.began is not None
        stream, finished = served.stream, now - served.began
        compute = finished - max(arrived, served.finished)
        served.finished = finished
        stream.times[-1] = ChunkTime(stream.times[-1].arrival, compute)
        lateness = finished - arrived
        self.lateness.append(lateness)
        newest = len(stream.times) - 1
        transcripts = [
            event.text
            for event in stream.events
            if event.kind == "transcript" and event.chunk == newest
        ]
        return Progress(
            served.newest_output(),
            transcripts[-1] if transcripts else None,
            lateness,
            chunk.final,
        )


def _arrival(served: ServedStream) -> Seconds:
    """Return the time of the clock at which the oldest waiting chunk of a stream has arrived."""
    assert served.began is not None
    return served.began + served.waiting[0][1]
