"""Synthetic speech with word and phoneme times; equal arguments give identical samples."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self, TypeVar

import numpy as np
import soxr
from numpy.typing import NDArray

from zoo.base.errors import ZooError
from zoo.base.talks import Word
from zoo.base.types import SAMPLE_RATE, Seconds

FULL_SCALE = 32768  # of 16-bit samples
AUDIBLE = 330  # of 32768; trailing samples below it are silence
DIED: dict[str, Any] = {"error": "the espeak-ng process died"}
Span = tuple[Seconds, Seconds]
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Utterance:
    """Speech of a sequence of words.

    Attributes:
        samples: (n,) float32 at 16 kHz.
        words: the words with their times in seconds from the first sample.
        phonemes: the phonemes with their times.
        missing: number of words without a time of their own, because espeak-ng merges articles into
            the preceding word.
    """

    samples: NDArray[np.float32]
    words: tuple[Word, ...]
    phonemes: tuple[Word, ...]
    missing: int


class Speaker:
    """An espeak-ng process, used as a context manager; each thread needs its own."""

    def __enter__(self) -> Self:
        # -P: the child must not import modules from its own folder.
        command = [sys.executable, "-P", str(Path(__file__).with_name("process.py"))]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the parent; the child ends with its input
        )
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def speak(
        self,
        words: Sequence[str],
        *,
        voice: str,
        rate: int,
        pitch: int,
        seed: int,
        pitch_range: int | None = None,
    ) -> Utterance:
        """Synthesise words, without trailing silence.

        Args:
            words: words with punctuation attached.
            voice: espeak-ng voice such as ``en-us+f2``.
            rate: speaking rate in words per minute.
            pitch: base pitch on espeak-ng's scale of 0 to 99.
            seed: random seed of espeak-ng.
            pitch_range: intonation range on the same scale; 0 is monotonous; None: the voice's own.

        Raises:
            ZooError: espeak-ng rejects a value, its process died, or the speech is silent.
        """
        request: dict[str, Any] = {
            "text": " ".join(words),
            "voice": voice,
            "rate": rate,
            "pitch": pitch,
            "seed": seed,
        }
        if pitch_range is not None:
            request["pitch_range"] = pitch_range
        header, pcm = self._request(request)

        wave = np.frombuffer(pcm, dtype="<i2")
        audible = np.flatnonzero(np.abs(wave.astype(np.int32)) > AUDIBLE)
        if not len(audible):
            raise ZooError(
                f"espeak-ng returned silence for {request['text']!r} with voice {voice!r}."
            )
        wave = wave[: audible[-1] + 1]
        samples = soxr.resample(wave.astype(np.float32) / FULL_SCALE, header["rate"], SAMPLE_RATE)

        end = len(wave) / header["rate"]
        phonemes = _phonemes(header, end=end)
        starts = _word_starts(words, header)
        spans = _word_spans(words, starts, phonemes, end=end)
        timed = tuple(_rounded(text, span) for text, span in zip(words, spans, strict=True))
        return Utterance(samples, timed, phonemes, missing=sum(start is None for start in starts))

    def _request(self, request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """Send a request to the process; return the header and the 16-bit samples."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
            header = json.loads(line) if line else DIED
        except BrokenPipeError:
            header = DIED
        if "error" in header:
            raise ZooError(f"Cannot synthesise {request['text']!r}: {header['error']}.")
        return header, self._process.stdout.read(header["bytes"])


def in_parallel(
    work: Callable[[Speaker, Item], Result], items: Sequence[Item], *, workers: int
) -> Iterator[Result]:
    """Yield the results of all items in order, with one espeak-ng process per worker.

    Args:
        work: computes the result of an item with the given speaker; called in a thread.
        items: what to synthesise.
        workers: number of threads and processes.
    """
    speakers: SimpleQueue[Speaker] = SimpleQueue()

    def one(item: Item) -> Result:
        speaker = speakers.get()
        try:
            return work(speaker, item)
        finally:
            speakers.put(speaker)

    with ExitStack() as stack:
        for _ in range(workers):
            speakers.put(stack.enter_context(Speaker()))
        pool = stack.enter_context(ThreadPoolExecutor(workers))
        stack.callback(pool.shutdown, cancel_futures=True)
        yield from pool.map(one, items)


def _rounded(text: str, span: Span) -> Word:
    return Word(text, round(span[0], 3), round(span[1], 3))


def _phonemes(header: dict[str, Any], *, end: Seconds) -> tuple[Word, ...]:
    """Return the phonemes without stress marks and pauses.

    Each phoneme ends where the next event starts.
    """
    events = [
        (sample / header["rate"], name.lstrip("',%=|"))
        for kind, _, sample, name in header["events"]
        if kind == "phoneme"
    ]
    ends = [start for start, _ in events[1:]] + [end]
    spans = [
        (name, start, min(stop, end)) for (start, name), stop in zip(events, ends, strict=True)
    ]
    return tuple(
        _rounded(name, (start, stop))
        for name, start, stop in spans
        if stop > start and name and name != ";" and not name.startswith("_")
    )


def _word_starts(words: Sequence[str], header: dict[str, Any]) -> list[Seconds | None]:
    """Return the start of each word; None if espeak-ng reported no event at its first letter.

    An event inside a word (after a hyphen) is not its start.
    """
    offsets = np.cumsum([0] + [len(word) + 1 for word in words[:-1]])
    starts: list[Seconds | None] = [None] * len(words)
    for kind, position, sample, _ in header["events"]:
        if kind == "word":
            index = int(np.searchsorted(offsets, position, side="right")) - 1
            if starts[index] is None:
                starts[index] = sample / header["rate"]
    starts[0] = starts[0] or 0.0
    return starts


def _word_spans(
    words: Sequence[str], starts: list[Seconds | None], phonemes: Sequence[Word], *, end: Seconds
) -> list[Span]:
    """Return start and end of each word.

    Words without a start share the time of the preceding word in proportion to their letters.
    Pauses between words belong to no word.
    """
    timed = [index for index, start in enumerate(starts) if start is not None]
    spans: list[Span] = []
    for first, after in zip(timed, [*timed[1:], len(words)], strict=True):
        start = min(starts[first] or 0.0, end)
        stop = starts[after] if after < len(words) else end
        ends = [phoneme.end for phoneme in phonemes if start <= phoneme.start < (stop or end)]
        stop = min(max(ends, default=end), stop or end)

        letters = np.cumsum([0] + [len(word) for word in words[first:after]])
        edges = start + (max(stop, start) - start) * letters / letters[-1]
        spans += [(float(left), float(right)) for left, right in pairwise(edges)]
    return spans
