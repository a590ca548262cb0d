"""One source through a system, output by output: what a person calls in Python or on a terminal."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

from torch import Tensor

from zoo.base.types import SAMPLE_RATE, Instance, Seconds
from zoo.streaming.segments import SourceSegment, source_segments
from zoo.streaming.simulate import (
    SimulatedSystem,
    Source,
    Stream,
    advance,
    mark_final,
    to_instance,
)
from zoo.streaming.waveforms import timeline

SHOWN = 60  # characters of a text that a repr shows


@dataclass(frozen=True, slots=True)
class EmittedWord:
    """A word of a translation, or a character in a language that is counted in characters.

    Attributes:
        text: the word, without white space.
        delay: seconds of source that the system had received when it emitted the word.
        elapsed: seconds since the stream began at which the word was emitted, compute included.
    """

    text: str
    delay: Seconds
    elapsed: Seconds


@dataclass(frozen=True, slots=True)
class EmittedText:
    """What a system emits after one chunk.

    Attributes:
        text: the text with the white space before it: the texts of a stream, joined, are the
            translation, unless text was deleted. It may end within a word.
        delay: seconds of source that the system has received.
        elapsed: seconds since the stream began, compute included.
        deleted: text at the end of the output before this one that the system has deleted; only
            systems that revise their output delete text.
        speech: (n,) float32 target speech at 16 kHz; None from a system without a synthesizer.
    """

    text: str
    delay: Seconds
    elapsed: Seconds
    deleted: str = ""
    speech: Tensor | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Translation:
    """The translation of one source; ``print`` shows its text.

    Attributes:
        instance: the complete output of the stream, as metrics and reports read it.

    Example:
        >>> translation = zoo.load("infinisst_minitalks_en-de").translate("talk.wav")
        >>> print(translation)
        >>> for word in translation.words:
        ...     print(f"{word.elapsed:6.2f} s  {word.text}")
    """

    instance: Instance

    @property
    def talk(self) -> str:
        """Name of the source: that of its file without the suffix."""
        return self.instance.talk

    @property
    def text(self) -> str:
        """The complete text."""
        return self.instance.text

    @property
    def duration(self) -> Seconds:
        """Duration of the source."""
        return self.instance.source_length

    @cached_property
    def words(self) -> tuple[EmittedWord, ...]:
        """The words with their times, in order."""
        one = self.instance
        return tuple(map(EmittedWord, one.units, one.delays, one.elapsed))

    @cached_property
    def segments(self) -> tuple[SourceSegment, ...]:
        """The segments into which the system has divided the source; empty if it divides none."""
        return tuple(source_segments(self.instance))

    @cached_property
    def speech(self) -> Tensor | None:
        """(n,) float32 target speech at 16 kHz on the time line of the source.

        None from a system without a synthesizer.
        """
        return timeline(self.instance) if self.instance.speech else None

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        facts = [f"{self.duration:.1f} s", count("word", self.words)]
        if self.segments:
            facts.append(count("segment", self.segments))
        if self.instance.speech:
            facts.append("speech")
        return f"Translation({self.talk!r}, {', '.join(facts)}: {shorten(self.text)!r})"


class TranslationStream(Iterator[EmittedText]):
    """A source that is being translated: iterate to receive what the system emits, at once.

    An output arrives as soon as the chunk that causes it is processed, and no chunk is taken from
    the source before the next output is asked for.

    Args:
        system: system with weights.
        source: the source. Its session is opened at once, its chunks are not read yet.
    """

    def __init__(self, system: SimulatedSystem, source: Source) -> None:
        session = system.open(source.talk, segments=source.segments)
        self._system = system
        self._stream = Stream(
            source.index or 0, source, session, mark_final(source.chunks, excerpt=source.excerpt)
        )
        self._elapsed: Seconds = 0.0  # at which the newest chunk was done
        self._outputs = self._advance()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> EmittedText:
        return next(self._outputs)

    @property
    def has_begun(self) -> bool:
        """Whether the system has processed a chunk."""
        return bool(self._stream.times)

    @property
    def translation(self) -> Translation:
        """The translation so far; complete after the last output.

        Output of a chunk whose processing was interrupted has no time, and is left out.
        """
        stream = self._stream
        done = len(stream.times)
        stream.emissions = [one for one in stream.emissions if one.chunk < done]
        stream.events = [event for event in stream.events if event.chunk < done]
        return Translation(to_instance(stream, self._system.target_language, batched=False))

    def _advance(self) -> Iterator[EmittedText]:
        """Process chunk after chunk and yield the output of those that have some."""
        stream = self._stream
        while not stream.session.source_ended:
            advance(self._system, [stream], None)
            newest = stream.times[-1]
            self._elapsed = max(newest.arrival, self._elapsed) + newest.compute
            if (output := newest_output(stream, self._elapsed)) is not None:
                yield output

    def __repr__(self) -> str:
        state = "ended" if self._stream.session.source_ended else "live"
        seconds = self._stream.received / SAMPLE_RATE
        return f"TranslationStream({self._stream.source.talk!r}, {seconds:.1f} s received, {state})"


def newest_output(stream: Stream, elapsed: Seconds) -> EmittedText | None:
    """Return what a system has emitted after the newest chunk of a stream; None: nothing.

    Args:
        stream: stream of which at least one chunk is processed.
        elapsed: seconds since the stream began at which that chunk was done.
    """
    chunk = len(stream.times) - 1
    deleted = "".join(
        event.text for event in stream.events if event.kind == "revision" and event.chunk == chunk
    )
    if stream.emissions and stream.emissions[-1].chunk == chunk:
        output = stream.emissions[-1]
        return EmittedText(output.text, output.delay, elapsed, deleted, output.speech)
    if deleted:
        return EmittedText("", stream.times[-1].arrival, elapsed, deleted)
    return None


def count(noun: str, items: Sequence[object]) -> str:
    """Return a number of things as text, such as ``3 words`` or ``1 word``."""
    return f"{len(items)} {noun}{'' if len(items) == 1 else 's'}"


def shorten(text: str) -> str:
    """Return the beginning of a text, with an ellipsis if it is longer than ``SHOWN``."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN].rstrip()}…"
