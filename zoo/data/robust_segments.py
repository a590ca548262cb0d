"""Stretches of whole talks to train on, non-speech included (InfiniSST, section 3.3, "Robust Segments")."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from zoo import audio
from zoo.data.talks import Segment, Talk
from zoo.data.trajectories import chunked_words
from zoo.data.views import sentences
from zoo.types import SAMPLE_RATE, Samples, Seconds


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive chunks of a talk. start: seconds in the talk. segments: the utterances that touch it."""

    talk: Talk
    start: Seconds
    chunks: int
    chunk_seconds: Seconds
    segments: tuple[Segment, ...]

    @property
    def chunk_samples(self) -> Samples:
        """Samples per chunk."""
        return round(self.chunk_seconds * SAMPLE_RATE)

    def samples(self) -> Tensor:
        """(chunks x chunk_samples,) audio, zeros after the end of the talk."""
        length = self.chunks * self.chunk_samples
        heard = audio.load(
            self.talk.file,
            start=self.talk.offset + self.start,
            duration=min(length / SAMPLE_RATE, self.remaining),
        )[:length]
        return torch.nn.functional.pad(heard, (0, length - heard.numel()))

    @property
    def remaining(self) -> Seconds:
        """Seconds of the talk after ``start``."""
        return self.talk.duration - self.start

    def turns(self, target: str) -> list[list[str]]:
        """Target words per chunk."""
        return chunked_words(
            self.segments,
            target,
            start=self.start,
            chunks=self.chunks,
            chunk_seconds=self.chunk_seconds,
        )


class RobustSegments:
    """Draws stretches. One that would start inside an utterance moves to just before that utterance.

    lead: the longest silence kept before such an utterance (seconds), so that any phase of the chunk grid is seen.
    robust: False makes each stretch a single utterance of its own length (the paper's ablation, Table 2).
    on_grid: stretches are whole blocks of the talk's own grid, so that what a frozen encoder hears in them can be
    computed once; the block in which an utterance begins may begin with the end of the one before.
    """

    def __init__(
        self,
        talks: Sequence[Talk],
        *,
        chunk_seconds: Seconds,
        lead: Seconds = 0.5,
        robust: bool = True,
        on_grid: bool = False,
    ) -> None:
        self.talks = [talk for talk in talks if talk.segments] if robust else sentences(talks)
        self.chunk_seconds = chunk_seconds
        self.lead = lead
        self.robust = robust
        self.on_grid = on_grid

    def batch(
        self, random: np.random.Generator, *, streams: int, chunks: int, multiplier: int
    ) -> list[Stretch]:
        """``streams`` stretches of ``chunks`` chunks, or as many utterances as are about as long together."""
        drawn: list[Stretch] = []
        left = streams * chunks
        while left > 0:
            drawn.append(self.draw(random, chunks, multiplier))
            left -= chunks if self.robust else drawn[-1].chunks
        return drawn

    def draw(self, random: np.random.Generator, chunks: int, multiplier: int = 1) -> Stretch:
        """A stretch of ``chunks`` chunks, starting anywhere in any talk with equal chance.

        Shorter at the end of a talk on the grid, and for a single utterance; whole blocks of ``multiplier`` then.
        """
        talk = self.talks[random.integers(len(self.talks))]
        if not self.robust:
            return self._blocks(talk, 0, -(-chunks // multiplier), multiplier)
        if self.on_grid:
            return self._on_grid(talk, random, chunks // multiplier, multiplier)
        start = random.uniform(0, max(0.0, talk.duration - 0.5 * chunks * self.chunk_seconds))
        return self.at(talk, start, chunks, lead=random.uniform(0, self.lead))

    def at(self, talk: Talk, start: Seconds, chunks: int, *, lead: Seconds = 0.0) -> Stretch:
        """The stretch at ``start``, or ``lead`` seconds before the utterance that ``start`` falls into."""
        before = 0.0
        for segment in talk.segments:
            if segment.offset < start < segment.end:
                start = max(before, segment.offset - lead, 0.0)
                break
            before = segment.end
        return self._stretch(talk, start, chunks)

    def _on_grid(
        self, talk: Talk, random: np.random.Generator, blocks: int, multiplier: int
    ) -> Stretch:
        block = multiplier * self.chunk_seconds
        first = int(
            random.integers(max(1, blocks_of(talk, round(block * SAMPLE_RATE)) - blocks + 1))
        )
        for segment in talk.segments:
            if segment.offset < first * block < segment.end:
                first = int(segment.offset / block)
                break
        return self._blocks(talk, first, blocks, multiplier)

    def _blocks(self, talk: Talk, first: int, blocks: int, multiplier: int) -> Stretch:
        """At most ``blocks`` blocks from the talk's ``first`` on, the last one filled up where the talk ends in it."""
        block = multiplier * self.chunk_seconds
        blocks = min(blocks, blocks_of(talk, round(block * SAMPLE_RATE)) - first)
        return self._stretch(talk, first * block, blocks * multiplier)

    def _stretch(self, talk: Talk, start: Seconds, chunks: int) -> Stretch:
        end = start + chunks * self.chunk_seconds
        touched = tuple(
            segment for segment in talk.segments if segment.end > start and segment.offset < end
        )
        return Stretch(talk, start, chunks, self.chunk_seconds, touched)


def blocks_of(talk: Talk, block: Samples) -> int:
    """Blocks of ``block`` samples that hold the talk; the last one may be filled up."""
    return max(1, -(-round(talk.duration * SAMPLE_RATE) // block))
