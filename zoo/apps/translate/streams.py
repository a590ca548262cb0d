"""Streams files and a microphone through a system, shows the words and keeps what was written."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import torch

from zoo.apps.translate.display import Display
from zoo.apps.translate.live import Speed, Stop, arriving
from zoo.apps.translate.microphone import Capture, Microphone
from zoo.apps.translate.output import TranslationFolder
from zoo.base.audio import files as audio
from zoo.base.talks import Talk, without_references
from zoo.base.types import SAMPLE_RATE, Instance
from zoo.streaming.simulate import Source, mark_final, warm_up
from zoo.streaming.sources import WARM_UP, beginning, source
from zoo.streaming.translation import TranslationStream
from zoo.systems.base import StreamingSystem

MICROPHONE = "microphone"  # name of the talk of a microphone


class TerminalTranslation:
    """Translates sources one after the other.

    Ctrl-C ends the current source; the system completes its translation of what it has received. A
    second Ctrl-C, or SIGTERM, ends at once and keeps the words that were emitted.

    Args:
        system: system with weights.
        output: receives each stream that has ended.
        display: shows each word when it is emitted.

    Attributes:
        stop: whether a signal has ended a source; no further source is opened then.
    """

    def __init__(
        self, system: StreamingSystem, output: TranslationFolder, display: Display
    ) -> None:
        self.stop = Stop()
        self._system = system
        self._output = output
        self._display = display
        self._stream: TranslationStream | None = None  # the live stream

    def warm_up(self, talks: Sequence[Talk]) -> None:
        """Stream the beginning of the first talk, or silence, before the clock of a source starts.

        Args:
            talks: talks with audio; none for a microphone.
        """
        size, target = self._system.chunk_samples, self._system.target_language
        if talks:
            warm_up(self._system, beginning(talks[0], target, chunk_samples=size))
        else:
            silence = torch.zeros(round(WARM_UP * SAMPLE_RATE))
            warm_up(self._system, Source(MICROPHONE, silence.split(size)))

    def of_files(self, talks: Sequence[Talk], speed: Speed) -> None:
        """Translate talks.

        Args:
            talks: talks with audio.
            speed: see ``arriving``.
        """

        def opened() -> Iterator[Source]:
            for index, talk in enumerate(talks):
                if self.stop.requested:
                    return
                self._display.begin(talk.name, talk.duration)
                yield self._source(talk, index, speed)

        self._run(opened(), lambda instance: talks[instance.index])

    def of_microphone(self, microphone: Microphone) -> None:
        """Translate a microphone until Ctrl-C, and keep its recording."""
        capture = Capture(microphone, size=self._system.chunk_samples, stop=self.stop)
        path = self._output.folder / f"{MICROPHONE}.wav"
        language = self._system.source_language.code

        def recorded(instance: Instance) -> Talk:
            audio.write(path, torch.cat(capture.recorded))
            return without_references(MICROPHONE, path, instance.source_length, language)

        self._display.begin(f"{MICROPHONE}, until Ctrl-C")
        self._run([Source(MICROPHONE, capture)], recorded)
        if capture.lost:
            self._display.note(f"The sound card has lost samples {capture.lost} times.")

    def _source(self, talk: Talk, index: int, speed: Speed) -> Source:
        """Return the stream of a talk, whose chunks arrive at their time."""
        size = self._system.chunk_samples
        whole = source(talk, self._system.target_language, chunk_samples=size, index=index)
        chunks = arriving(mark_final(whole.chunks), speed=speed, stop=self.stop)
        return replace(whole, chunks=chunks)

    def _run(self, sources: Iterable[Source], talk_of: Callable[[Instance], Talk]) -> None:
        """Stream sources until the last one, or until a signal.

        Args:
            sources: streams to translate.
            talk_of: returns the talk of a stream that has ended.
        """
        try:
            with self.stop.on_interrupt():
                for one in sources:
                    self._stream = TranslationStream(self._system, one)
                    for output in self._stream:
                        self._display.show(output)
                    self._keep(self._stream.translation.instance, talk_of)
        except KeyboardInterrupt:
            self.stop.requested = True
            if self._stream is not None and self._stream.has_begun:
                self._keep(self._stream.translation.instance, talk_of)

    def _keep(self, instance: Instance, talk_of: Callable[[Instance], Talk]) -> None:
        """Write the files of a stream that has ended."""
        with self.stop.not_while_writing():
            self._stream = None
            self._display.end(instance)
            self._output.add(instance, talk_of(instance))
