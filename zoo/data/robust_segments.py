"""Robust segments (InfiniSST, section 3.3): parts of whole talks for training, pauses included."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from zoo.base.audio import files as audio
from zoo.base.errors import ZooError, check_numbers
from zoo.base.languages import Language
from zoo.base.talks import LazyTalks, Segment, Talk, blocks_of
from zoo.base.types import SAMPLE_RATE, Samples, Seconds
from zoo.data.mixture import by_share
from zoo.data.sampling import EncodeTalks, Pass, Sampler, Sampling, Stretches, TalkFrames
from zoo.data.trajectories import chunked_words, emission_times, merge_turns
from zoo.data.views import sentences


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

    @property
    def seconds(self) -> Seconds:
        """Duration of the chunks in seconds."""
        return self.chunks * self.chunk_seconds

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

    def merged_turns(self, target: str) -> list[list[str]]:
        """Return the target words of each turn of ``multiplier`` chunks; see ``turns``."""
        return merge_turns(self.turns(target), self.multiplier)


def check_turns(talks: Sequence[Talk], source: Language, target: Language, *, noun: str) -> None:
    """Check that robust segments of talks have target words, before the first is made.

    Args:
        talks: Training talks. Talks that are decoded when they are needed have no check.
        source: Language of the speech that is trained.
        target: Language of the translation that is trained.
        noun: Name of what is trained, for error messages.

    Raises:
        ZooError: A share of a mixture has another direction, or a talk has no word alignments.
    """
    for share, shared in by_share(talks):
        if share is not None and (
            shared[0].source_language != source.code or share.target_language != target.code
        ):
            raise ZooError(
                f"{noun} is trained in one direction, {source.name} to {target.name}; "
                f"data.entries.{share.name} has another one."
            )
        for talk in () if isinstance(shared, LazyTalks) else shared:
            for segment in talk.segments:
                # Called to raise an error here instead of in a data worker.
                emission_times(segment, target.code)


@dataclass(frozen=True, kw_only=True)
class RobustSegmentConfig(Sampling):
    """Options of robust segments.

    Attributes:
        utterances: Share of the batches that have single utterances, which begin with speech,
            instead of robust segments. With 1, all batches have single utterances, as in the
            ablation of the InfiniSST paper (Table 2).
        encoded: Whether segments contain the outputs of a frozen encoder, which has streamed the
            whole talks once.
        lead: Maximum time before the utterance that a robust segment is moved to, in seconds; each
            segment draws its own. 0: the segment begins with the utterance, as in the paper. Above
            0, utterances begin at any position within a chunk. Not used with ``encoded``.
    """

    utterances: float = 0.0
    encoded: bool = False
    lead: Seconds = 0.0

    def __post_init__(self) -> None:
        """Raises ZooError for a share below 0 or above 1, or a negative lead."""
        check_numbers(type(self).__name__, least=0, most=1, utterances=self.utterances)
        check_numbers(type(self).__name__, least=0, lead=self.lead)

    def sampler(
        self,
        talks: Sequence[Talk],
        *,
        target: Language,
        chunk_seconds: Seconds,
        stretches: Stretches = Stretches(),  # noqa: B008 (frozen)
    ) -> "RobustSegmentSampler":
        """Return a sampler of the robust segments of talks; see ``Sampling``."""
        return RobustSegmentSampler(talks, self, chunk_seconds=chunk_seconds, stretches=stretches)


class RobustSegmentSampler(Sampler):
    """Makes batches of robust segments or of single utterances.

    A pass over robust segments divides each talk into stretches of random lengths from a random
    start on. A pass over utterances has each utterance once.

    Args:
        talks: Training talks.
        config: Options of the sampler.
        chunk_seconds: Duration of one chunk in seconds.
        stretches: Lengths and multipliers of the segments.
    """

    def __init__(
        self,
        talks: Sequence[Talk],
        config: RobustSegmentConfig,
        *,
        chunk_seconds: Seconds,
        stretches: Stretches,
    ) -> None:
        shares = {True: 1 - config.utterances, False: config.utterances}
        self._shares = {robust: share for robust, share in shares.items() if share > 0}
        self._segments = [
            RobustSegments(
                talks,
                chunk_seconds=chunk_seconds,
                stretches=stretches,
                robust=robust,
                on_grid=config.encoded,
                lead=config.lead,
            )
            for robust in self._shares
        ]
        self._encoded: list[TalkFrames] = []
        self._stretches = stretches

    @property
    def multipliers(self) -> set[int]:
        """All latency multipliers of the segments."""
        return self._stretches.possible_multipliers

    @property
    def kinds(self) -> Sequence[float]:
        """Shares of robust segments and of single utterances; a kind without a share is absent."""
        return list(self._shares.values())

    def encode(self, encode_talks: EncodeTalks) -> None:
        """Encode the talks of each kind of segment; see ``Sampler``."""
        self._encoded = [encode_talks(segments.talks) for segments in self._segments]

    def plan(self, kind: int, random: np.random.Generator) -> Pass:
        """List the segments of one pass, grouped by multiplier; see ``Sampler``."""
        return self._segments[kind].plan(random)

    def examples(
        self, kind: int, positions: np.ndarray, random: np.random.Generator
    ) -> list[RobustSegment]:
        """Make segments; see ``Sampler``."""
        segments = [self._segments[kind].segment(position) for position in positions]
        if not self._encoded:
            return segments
        return [replace(one, frames=_frames(one, self._encoded[kind])) for one in segments]


def _frames(segment: RobustSegment, encoded: TalkFrames) -> Tensor:
    """Return the encoder frames (frames, hidden) of a segment that starts at a whole chunk."""
    size = segment.chunk_samples // encoded.frame_samples
    first = size * round(segment.start / segment.chunk_seconds)
    last = first + size * segment.chunks
    return encoded.between(segment.talk, first, last, segment.multiplier)


class RobustSegments:
    """Lists and makes segments of one kind.

    Attributes:
        talks: Talks with utterances. If ``robust`` is False, each utterance is a talk.
        chunk_seconds: Duration of one chunk in seconds.
        stretches: Lengths and multipliers of the segments.
        robust: Whether segments are robust segments. If False, each segment is a single utterance
            with the duration of the utterance (InfiniSST, Table 2).
        on_grid: Whether segments have whole encoder blocks, counted from the start of the talk, so
            that a frozen encoder can run over the talk once. The block in which an utterance begins
            may then begin with the end of the previous utterance, and a length that the multiplier
            does not divide is lowered to a multiple.
        lead: Maximum time before the utterance that a robust segment is moved to, in seconds; each
            segment draws its own. Not used with ``on_grid``.

    Raises:
        ZooError: No talk has an utterance.
    """

    def __init__(
        self,
        talks: Sequence[Talk],
        *,
        chunk_seconds: Seconds,
        stretches: Stretches = Stretches(),  # noqa: B008 (frozen)
        robust: bool = True,
        on_grid: bool = False,
        lead: Seconds = 0.0,
    ) -> None:
        self.talks = [talk for talk in talks if talk.segments] if robust else sentences(talks)
        if not self.talks:
            raise ZooError("The talks have no segments to train on.")
        self.chunk_seconds = chunk_seconds
        self.stretches = stretches
        self.robust = robust
        self.on_grid = on_grid
        self.lead = lead

    def plan(self, random: np.random.Generator) -> Pass:
        """List the segments of one pass, as talk, start in seconds, chunks and multiplier."""
        positions: list[tuple[int, Seconds, int, int]] = []
        for index, talk in enumerate(self.talks):
            for start, chunks, multiplier in self._stretches(talk, random):
                positions.append((index, start, chunks, multiplier))
        table = np.array(positions)
        return Pass(table, seconds=table[:, 2] * self.chunk_seconds, groups=table[:, 3].astype(int))

    def _stretches(
        self, talk: Talk, random: np.random.Generator
    ) -> Iterator[tuple[Seconds, int, int]]:
        """Divide a talk into stretches; yield start in seconds, chunks and multiplier of each.

        The first stretch begins at a random time before the talk and is moved to the start of the
        talk. The last stretch is moved so that at least its first half is within the talk. A
        stretch that begins inside an utterance is moved to the start of the utterance, and the next
        one follows it. Thus an utterance that is longer than a stretch is cut at its end.
        """
        chunks, multiplier = self._draw(random)
        if not self.robust:
            yield 0.0, min(chunks, self._chunks_of(talk, multiplier)), multiplier
            return

        begin = -random.uniform(0, chunks * self.chunk_seconds)
        reached = 0.0  # end of the stretches so far
        while begin < talk.duration:
            seconds = chunks * self.chunk_seconds
            if self.on_grid:
                chunks = min(chunks, self._chunks_of(talk, multiplier))
                latest = (self._chunks_of(talk, multiplier) - chunks) * self.chunk_seconds
                wanted = min(max(0.0, begin), latest)
                start = self._block_before(talk, wanted, multiplier * self.chunk_seconds)
            else:
                wanted = min(max(0.0, begin), max(0.0, talk.duration - 0.5 * seconds))
                start = self._utterance_before(talk, wanted, lead=random.uniform(0, self.lead))
            end = start + chunks * self.chunk_seconds
            if end > reached:
                yield start, chunks, multiplier
                begin += seconds - (wanted - start)
                reached = end
            elif begin < reached:  # the stretch has no audio that was not yielded before
                begin = reached
            else:  # the stretch lies within an utterance that is longer
                begin += seconds
            chunks, multiplier = self._draw(random)

    def _draw(self, random: np.random.Generator) -> tuple[int, int]:
        """Draw a length in chunks and its multiplier."""
        chunks, multiplier = self.stretches.draw(random)
        return chunks - (chunks % multiplier if self.on_grid else 0), multiplier

    @staticmethod
    def _utterance_before(talk: Talk, start: Seconds, *, lead: Seconds) -> Seconds:
        """Return ``start``, or a time before the utterance around ``start``.

        This time is not within the utterance before it.

        Args:
            talk: Talk of the segment.
            start: Seconds from the start of the talk.
            lead: Time before the utterance, in seconds.
        """
        before = 0.0
        for segment in talk.outline:
            if segment.offset < start < segment.end:
                return max(before, segment.offset - lead, 0.0)
            before = segment.end
        return start

    @staticmethod
    def _block_before(talk: Talk, start: Seconds, block: Seconds) -> Seconds:
        """Return the start of the encoder block around ``start``.

        If it is inside an utterance, return the start of the block in which the utterance begins.
        """
        first = int(start / block)
        for segment in talk.outline:
            if segment.offset < first * block < segment.end:
                first = int(segment.offset / block)
                break
        return first * block

    def segment(self, position: np.ndarray) -> RobustSegment:
        """Make a segment from a (4,) row of ``Pass.positions``."""
        index, start, chunks, multiplier = position.tolist()
        return self.at(self.talks[int(index)], start, int(chunks), multiplier=int(multiplier))

    def at(self, talk: Talk, start: Seconds, chunks: int, *, multiplier: int = 1) -> RobustSegment:
        """Return the segment at ``start``.

        Args:
            talk: Talk of the segment.
            start: Seconds from the start of the talk.
            chunks: Length of the segment in chunks.
            multiplier: Latency multiplier m of the segment.
        """
        end = start + chunks * self.chunk_seconds
        touched = tuple(
            talk.segments[index]
            for index, segment in enumerate(talk.outline)
            if segment.end > start and segment.offset < end
        )
        return RobustSegment(talk, start, chunks, self.chunk_seconds, touched, multiplier)

    def _chunks_of(self, talk: Talk, multiplier: int) -> int:
        """Return the number of chunks of a talk in whole encoder blocks; the last may be padded."""
        return multiplier * blocks_of(talk, round(multiplier * self.chunk_seconds * SAMPLE_RATE))
