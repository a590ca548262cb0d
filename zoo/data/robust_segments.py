"""Robust segments (InfiniSST, section 3.3): parts of whole talks for training, pauses included."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from zoo import audio
from zoo.data.sampling import BatchShape, Sampler, Sampling, TalkEncoder, TalkFrames
from zoo.data.talks import Segment, Talk
from zoo.data.trajectories import chunked_words
from zoo.data.views import sentences
from zoo.errors import check_numbers
from zoo.languages import Language
from zoo.types import SAMPLE_RATE, Samples, Seconds

# Maximum silence before an utterance at the start of a segment. With random silence, utterances
# begin at any position within a chunk.
LEAD: Seconds = 0.5


@dataclass(frozen=True, slots=True)
class RobustSegment:
    """Consecutive chunks of a talk, which may begin and end in silence.

    Attributes:
        talk: The talk.
        start: Start of the robust segment in seconds from the start of the talk.
        chunks: Number of chunks.
        chunk_seconds: Duration of one chunk in seconds.
        segments: Utterances (segments of the talk) that overlap the robust segment.
        multiplier: Latency multiplier m of the batch; m chunks are one turn.
        frames: (frames, hidden) outputs of a frozen encoder; None: the backbone encodes
            ``samples``.
    """

    talk: Talk
    start: Seconds
    chunks: int
    chunk_seconds: Seconds
    segments: tuple[Segment, ...]
    multiplier: int = 1
    frames: Tensor | None = field(default=None, compare=False, repr=False)

    @property
    def chunk_samples(self) -> Samples:
        """Samples per chunk."""
        return round(self.chunk_seconds * SAMPLE_RATE)

    def samples(self) -> Tensor:
        """Return the audio (chunks x chunk_samples,), zero-padded after the end of the talk."""
        length = self.chunks * self.chunk_samples
        samples = audio.load(
            self.talk.file,
            start=self.talk.offset + self.start,
            duration=min(length / SAMPLE_RATE, self.remaining),
        )[:length]
        return torch.nn.functional.pad(samples, (0, length - samples.numel()))

    @property
    def remaining(self) -> Seconds:
        """Seconds of the talk after ``start``."""
        return self.talk.duration - self.start

    def turns(self, target: str) -> list[list[str]]:
        """Return the target words of each chunk; ``target`` is the code of the target language."""
        return chunked_words(
            self.segments,
            target,
            start=self.start,
            chunks=self.chunks,
            chunk_seconds=self.chunk_seconds,
        )


@dataclass(frozen=True, kw_only=True)
class RobustSegmentConfig(Sampling):
    """Options of robust segments.

    Attributes:
        utterances: Share of the batches that have single utterances, which begin with speech,
            instead of robust segments. With 1, all batches have single utterances, as in the
            ablation of the InfiniSST paper (Table 2).
        encoded: Whether segments contain the outputs of a frozen encoder, which has streamed the
            whole talks once.
    """

    utterances: float = 0.0
    encoded: bool = False

    def __post_init__(self) -> None:
        """Raises ZooError for a share below 0 or above 1."""
        check_numbers(type(self).__name__, least=0, most=1, utterances=self.utterances)

    def sampler(
        self, talks: Sequence[Talk], *, target: Language, chunk_seconds: Seconds
    ) -> "RobustSegmentSampler":
        """Return a sampler of the robust segments of talks; see ``Sampling``."""
        return RobustSegmentSampler(talks, self, chunk_seconds=chunk_seconds)


class RobustSegmentSampler(Sampler):
    """Draws batches of robust segments or of single utterances.

    Args:
        talks: Training talks.
        config: Options of the sampler.
        chunk_seconds: Duration of one chunk in seconds.
    """

    def __init__(
        self, talks: Sequence[Talk], config: RobustSegmentConfig, *, chunk_seconds: Seconds
    ) -> None:
        self.share = 1 - config.utterances
        self.kinds: dict[bool, RobustSegments] = {}  # by whether segments are robust
        for robust, share in ((True, self.share), (False, config.utterances)):
            if share > 0:
                self.kinds[robust] = RobustSegments(
                    talks, chunk_seconds=chunk_seconds, robust=robust, on_grid=config.encoded
                )
        self._encoded: dict[bool, TalkFrames] = {}

    def encode(
        self, encoder: TalkEncoder, *, multipliers: Collection[int], device: torch.device
    ) -> None:
        """Encode the talks of each kind of segment that is drawn; see ``Sampler``."""
        self._encoded = {
            robust: encoder.encode_talks(kind.talks, multipliers=multipliers, device=device)
            for robust, kind in self.kinds.items()
        }

    def batch(self, random: np.random.Generator, shape: BatchShape) -> list[RobustSegment]:
        """Draw segments of one kind; ``shape.choice`` selects the same kind on all ranks."""
        robust = shape.choice < self.share
        segments = self.kinds[robust].batch(random, shape)
        if not self._encoded:
            return segments
        return [replace(one, frames=_frames(one, self._encoded[robust])) for one in segments]


def _frames(segment: RobustSegment, encoded: TalkFrames) -> Tensor:
    """Return the encoder frames (frames, hidden) of a segment that starts at a whole chunk."""
    size = segment.chunk_samples // encoded.frame_samples
    first = size * round(segment.start / segment.chunk_seconds)
    last = first + size * segment.chunks
    return encoded.between(segment.talk, first, last, segment.multiplier)


class RobustSegments:
    """Draws segments of one kind.

    If the drawn start lies inside an utterance, the segment starts just before that utterance.

    Attributes:
        talks: Talks with utterances. If ``robust`` is False, each utterance is a talk.
        chunk_seconds: Duration of one chunk in seconds.
        robust: Whether segments are robust segments. If False, each segment is a single utterance
            with the duration of the utterance (InfiniSST, Table 2).
        on_grid: Whether segments have whole encoder blocks, counted from the start of the talk, so
            that a frozen encoder can run over the talk once. The block in which an utterance begins
            may then begin with the end of the previous utterance.
    """

    def __init__(
        self,
        talks: Sequence[Talk],
        *,
        chunk_seconds: Seconds,
        robust: bool = True,
        on_grid: bool = False,
    ) -> None:
        self.talks = [talk for talk in talks if talk.segments] if robust else sentences(talks)
        self.chunk_seconds = chunk_seconds
        self.robust = robust
        self.on_grid = on_grid

    def batch(self, random: np.random.Generator, shape: BatchShape) -> list[RobustSegment]:
        """Draw segments of ``shape.chunks`` chunks, or utterances of the same total duration."""
        drawn: list[RobustSegment] = []
        chunks_left = shape.chunks * shape.count(shape.chunks * self.chunk_seconds)
        while chunks_left > 0:
            drawn.append(self.draw(random, shape.chunks, shape.multiplier))
            # a robust segment at the end of a talk may be shorter and counts in full
            chunks_left -= shape.chunks if self.robust else drawn[-1].chunks
        return drawn

    def draw(self, random: np.random.Generator, chunks: int, multiplier: int = 1) -> RobustSegment:
        """Draw a segment that starts anywhere in any talk with equal chance.

        On the grid, and for a single utterance, the segment has whole encoder blocks and may be
        shorter than ``chunks``.

        Args:
            random: Only source of randomness.
            chunks: Length of the segment in chunks.
            multiplier: Latency multiplier m: an encoder block has m chunks.
        """
        talk = self.talks[random.integers(len(self.talks))]
        if not self.robust:
            return self._blocks(talk, 0, -(-chunks // multiplier), multiplier)
        if self.on_grid:
            return self._on_grid(talk, random, chunks // multiplier, multiplier)
        start = random.uniform(0, max(0.0, talk.duration - 0.5 * chunks * self.chunk_seconds))
        lead = random.uniform(0, LEAD)
        return self.at(talk, start, chunks, lead=lead, multiplier=multiplier)

    def at(
        self,
        talk: Talk,
        start: Seconds,
        chunks: int,
        *,
        lead: Seconds = 0.0,
        multiplier: int = 1,
    ) -> RobustSegment:
        """Return the segment at ``start``, or before the utterance around ``start``.

        Args:
            talk: Talk of the segment.
            start: Seconds from the start of the talk.
            chunks: Length of the segment in chunks.
            lead: Maximum silence before the utterance around ``start``, in seconds.
            multiplier: Latency multiplier m of the segment.
        """
        before = 0.0
        for segment in talk.segments:
            if segment.offset < start < segment.end:
                start = max(before, segment.offset - lead, 0.0)
                break
            before = segment.end
        return self._segment(talk, start, chunks, multiplier)

    def _on_grid(
        self, talk: Talk, random: np.random.Generator, blocks: int, multiplier: int
    ) -> RobustSegment:
        """Draw a segment of at most ``blocks`` whole encoder blocks of a talk."""
        block = multiplier * self.chunk_seconds
        first = int(
            random.integers(max(1, blocks_of(talk, round(block * SAMPLE_RATE)) - blocks + 1))
        )
        for segment in talk.segments:
            if segment.offset < first * block < segment.end:
                first = int(segment.offset / block)
                break
        return self._blocks(talk, first, blocks, multiplier)

    def _blocks(self, talk: Talk, first: int, blocks: int, multiplier: int) -> RobustSegment:
        """Return at most ``blocks`` encoder blocks from block ``first``; the last may be padded."""
        block = multiplier * self.chunk_seconds
        blocks = min(blocks, blocks_of(talk, round(block * SAMPLE_RATE)) - first)
        return self._segment(talk, first * block, blocks * multiplier, multiplier)

    def _segment(self, talk: Talk, start: Seconds, chunks: int, multiplier: int) -> RobustSegment:
        end = start + chunks * self.chunk_seconds
        touched = tuple(
            segment for segment in talk.segments if segment.end > start and segment.offset < end
        )
        return RobustSegment(talk, start, chunks, self.chunk_seconds, touched, multiplier)


def blocks_of(talk: Talk, block: Samples) -> int:
    """Return the number of blocks of ``block`` samples in a talk; the last may be padded."""
    return max(1, -(-round(talk.duration * SAMPLE_RATE) // block))
