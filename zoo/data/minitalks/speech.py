"""Spoken sentences with word and phoneme times, byte-identical for equal arguments. Knows no grammar and no talks."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import soxr
from numpy.typing import NDArray

from zoo.data.talks import Word
from zoo.errors import ZooError
from zoo.types import SAMPLE_RATE, Seconds

AUDIBLE = 330  # of 32768: trailing samples below this are silence
Span = tuple[Seconds, Seconds]


@dataclass(frozen=True, slots=True)
class Utterance:
    """Samples: (n,) float32 at 16 kHz. Words and phonemes: seconds from the first sample.

    missing: number of words whose time espeak-ng did not tell (it merges articles into the word before).
    """

    samples: NDArray[np.float32]
    words: tuple[Word, ...]
    phonemes: tuple[Word, ...]
    missing: int


class Speaker:
    """An espeak-ng process. Use it as a context manager; each thread needs its own."""

    def __enter__(self) -> Self:
        command = [
            sys.executable,
            "-P",
            str(Path(__file__).with_name("espeak.py")),
        ]  # -P: no imports from this folder
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the parent; the child ends with its input
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
        """Speak ``words`` (punctuation attached) at ``rate`` words per minute, without trailing silence.

        pitch, pitch_range: on espeak-ng's scale of 0-99; range 0 is monotonous, None is the voice's own.
        Raises ZooError when espeak-ng refuses or dies.
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
        header, pcm = self._ask(request)
        wave = np.frombuffer(pcm, dtype="<i2")
        audible = np.flatnonzero(np.abs(wave.astype(np.int32)) > AUDIBLE)
        if not len(audible):
            raise ZooError(f"espeak-ng said nothing for {request['text']!r} with voice {voice!r}.")
        wave = wave[: audible[-1] + 1]
        end = len(wave) / header["rate"]
        phonemes = _phonemes(header, end=end)
        starts = _starts(words, header)
        samples = soxr.resample(wave.astype(np.float32) / 32768, header["rate"], SAMPLE_RATE)
        spans = _spans(words, starts, phonemes, end=end)
        timed = tuple(_word(text, span) for text, span in zip(words, spans, strict=True))
        return Utterance(samples, timed, phonemes, missing=sum(start is None for start in starts))

    def _ask(self, request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            header = json.loads(
                self._process.stdout.readline() or '{"error": "the espeak-ng process died"}'
            )
        except BrokenPipeError:
            header = {"error": "the espeak-ng process died"}
        if "error" in header:
            raise ZooError(f"Cannot speak {request['text']!r}: {header['error']}.")
        return header, self._process.stdout.read(header["bytes"])


def _word(text: str, span: Span) -> Word:
    return Word(text, round(span[0], 3), round(span[1], 3))


def _phonemes(header: dict[str, Any], *, end: Seconds) -> tuple[Word, ...]:
    """Phonemes without stress marks and pauses; each ends where the next event begins."""
    events = [
        (at / header["rate"], name.lstrip("',%=|"))
        for kind, _, at, name in header["events"]
        if kind == "phoneme"
    ]
    ends = [start for start, _ in events[1:]] + [end]
    spans = (
        (name, start, min(stop, end)) for (start, name), stop in zip(events, ends, strict=True)
    )
    return tuple(
        _word(name, (start, stop))
        for name, start, stop in spans
        if stop > start and name and name != ";" and not name.startswith("_")
    )


def _starts(words: Sequence[str], header: dict[str, Any]) -> list[Seconds | None]:
    """Start per word; None where no event told it. An event inside a word (a hyphen) is not its start."""
    offsets = np.cumsum([0] + [len(word) + 1 for word in words[:-1]])
    starts: list[Seconds | None] = [None] * len(words)
    for kind, position, at, _ in header["events"]:
        if kind == "word":
            index = int(np.searchsorted(offsets, position, side="right")) - 1
            if starts[index] is None:
                starts[index] = at / header["rate"]
    starts[0] = starts[0] or 0.0
    return starts


def _spans(
    words: Sequence[str], starts: list[Seconds | None], phonemes: Sequence[Word], *, end: Seconds
) -> list[Span]:
    """Start and end per word: untold words share the time of the word before by letters; pauses belong to no word."""
    known = [index for index, start in enumerate(starts) if start is not None]
    spans: list[Span] = []
    for first, after in zip(known, [*known[1:], len(words)], strict=True):
        start = min(starts[first] or 0.0, end)
        stop = starts[after] if after < len(words) else end
        voiced = [phoneme.end for phoneme in phonemes if start <= phoneme.start < (stop or end)]
        stop = min(max(voiced, default=end), stop or end)
        letters = np.cumsum([0] + [len(word) for word in words[first:after]])
        edges = start + (max(stop, start) - start) * letters / letters[-1]
        spans += [(float(left), float(right)) for left, right in pairwise(edges)]
    return spans
