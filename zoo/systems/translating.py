"""What a person calls on a system in Python: the translation of a recording or of live audio."""

from collections.abc import Iterable
from dataclasses import replace

import torch

from zoo.base.audio.arrays import Waveform, check_sample_rate, to_mono_pieces
from zoo.base.errors import ZooError
from zoo.base.talks import Talk, without_references
from zoo.base.types import SAMPLE_RATE
from zoo.streaming.buffer import live_chunks
from zoo.streaming.simulate import Source, warm_up
from zoo.streaming.sources import DAY, LIVE, WARM_UP, Recording, open_recording, source
from zoo.streaming.translation import Translation, TranslationStream
from zoo.systems.system import System


class TranslatingSystem(System):
    """A system that translates a recording or live audio in one call; arguments as ``System``."""

    _is_warm = False  # whether a stream has been translated since the weights were loaded

    def translate(self, recording: Recording, *, sample_rate: int | None = None) -> Translation:
        """Translate a recording as fast as possible, with the times of a live stream.

        The times of the words follow from the arrival of the source and the measured compute, as in
        an evaluation. The first call reads the weights. Every call leaves training mode.

        Args:
            recording: An audio file or a film with sound, a talk of a corpus, or an array of
                samples: (n,) or (n, channels), floating-point numbers from -1 to 1 or integers.
            sample_rate: Samples per second of an array; not for files and talks.

        Returns:
            The text, its words with their times, and the segments of the source if the system
            divides it.

        Raises:
            ZooError: The audio cannot be read, is empty, or does not fit the system.

        Example:
            >>> system = zoo.load("infinisst_minitalks_en-de")
            >>> system.translate("talk.wav").text
            >>> system.translate(samples, sample_rate=44_100).words[0].elapsed
        """
        code, size = self.source_language.code, self.chunk_samples
        talk, samples = open_recording(recording, sample_rate=sample_rate, source_language=code)
        self._check_audio(talk)
        whole = source(talk, self.target_language, chunk_samples=size)
        first = samples[: round(WARM_UP * SAMPLE_RATE)]
        self._start_streaming(replace(whole, chunks=first.split(size)))
        stream = TranslationStream(self, replace(whole, chunks=samples.split(size)))
        for _ in stream:
            pass  # the stream keeps its output
        return stream.translation

    def translate_stream(
        self, pieces: Iterable[Waveform], *, sample_rate: int
    ) -> TranslationStream:
        """Translate live audio: receive pieces of it and emit text as soon as there is some.

        Args:
            pieces: Pieces of the audio in their order, of any length: arrays as for ``translate``.
                The stream ends when they end.
            sample_rate: Samples per second.

        Returns:
            An iterator over what the system emits. Its ``translation`` is the whole so far.

        Raises:
            ZooError: The system cannot translate audio without an end, or a piece does not fit.

        Example:
            >>> for output in system.translate_stream(microphone, sample_rate=16_000):
            ...     print(output.text, end="", flush=True)
        """
        check_sample_rate(sample_rate)
        if self.uses_reference_segments:
            raise ZooError(
                f"System {self.name!r} needs the segments of a talk, which live audio has not; "
                "choose another history."
            )
        self._check_audio(without_references(LIVE, None, DAY, self.source_language.code))
        size = self.chunk_samples
        silence = torch.zeros(round(WARM_UP * SAMPLE_RATE))
        self._start_streaming(Source(LIVE, silence.split(size)))
        chunks = live_chunks(to_mono_pieces(pieces, sample_rate), size)
        return TranslationStream(self, Source(LIVE, chunks))

    def _check_audio(self, talk: Talk) -> None:
        """Raise ZooError if the backbone cannot encode what the system may keep of a talk."""
        if problem := self.talk_problem([talk]):
            raise ZooError(problem)

    def _start_streaming(self, beginning: Source) -> None:
        """Load the weights, leave training mode, and warm up once, before the times count."""
        is_first = not self._is_warm
        self.load()
        self.to(self.device).eval()
        if is_first:
            warm_up(self, beginning)
        self._is_warm = True
