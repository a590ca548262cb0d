"""Precomputed outputs of a frozen encoder on whole training talks.

A training stage with a frozen encoder reads these outputs from disk instead of encoding the same
speech at every step. Runs with other target languages, seeds or ablations share the files if the
encoder and the talks are the same.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from zoo.base.audio import files as audio
from zoo.base.disk.files import atomic_file
from zoo.base.machine.devices import fast_bfloat16
from zoo.base.progress import show_progress
from zoo.base.talks import Talk, blocks_of
from zoo.base.types import Frames, Samples
from zoo.data.cache import cache_root, is_intact, lock_folder, seal, seal_if_complete

PARALLEL_CHUNKS = 16  # chunks of different talks per batch; larger batches exceed CPU caches


class BlockEncoder(Protocol):
    """Encoder that receives the audio of a stream in blocks of whole chunks.

    Attributes:
        config: Its options, a dataclass with the width ``hidden`` of a frame.
        chunk_samples: Number of samples per chunk.
        frame_samples: Number of samples per frame.
    """

    config: Any
    chunk_samples: Samples
    frame_samples: Samples

    def open(self) -> Any:
        """Create the state of a new stream."""

    def stream(self, states: Sequence[Any], blocks: Sequence[Tensor]) -> list[Tensor]:
        """Encode one new block (n,) per stream to (n / ``frame_samples``, hidden)."""

    def state_dict(self) -> Mapping[str, Any]:
        """Return the weights by name."""

    def to(self, device: torch.device) -> Any:
        """Return the encoder on a device."""


@runtime_checkable
class EncodesTalks(Protocol):
    """Backbone whose encoder, while it is frozen, can encode whole talks once before a training.

    Attributes:
        encoder: The encoder.
    """

    encoder: BlockEncoder

    def block_sizes(self, multipliers: Collection[int]) -> Collection[int]:
        """Return the sizes of encoder blocks in chunks with which talks are encoded.

        Args:
            multipliers: Latency multipliers m that a batch may have.

        Raises:
            ZooError: The configured encoder cannot encode whole talks.
        """


class EncodedTalks:
    """Streaming encoder outputs of whole talks, read from disk, for each latency multiplier m.

    Args:
        folder: Folder with one file ``m<multiplier>.npy`` per latency multiplier. Each file holds
            (frames of all talks, hidden) float16, talk by talk.
        talks: Talks in the order of the files.
        multipliers: Latency multipliers whose files are opened.
        encoder: Encoder that has written the files.
    """

    def __init__(
        self,
        folder: Path,
        talks: Sequence[Talk],
        multipliers: Iterable[int],
        encoder: BlockEncoder,
    ) -> None:
        self.frame_samples = encoder.frame_samples
        self._arrays = {m: np.load(folder / file_name(m), mmap_mode="r") for m in multipliers}
        self._first = {
            m: dict(zip(map(audio_key, talks), first_frames(encoder, talks, m)[:-1], strict=True))
            for m in self._arrays
        }

    def between(
        self, talk: Talk, first: Frames, last: Frames, multiplier: int | None = None
    ) -> Tensor:
        """Return some frames of a talk.

        Args:
            talk: The talk.
            first: Index of the first frame.
            last: Index after the last frame.
            multiplier: Latency multiplier m. None is allowed if there is only one multiplier.

        Returns:
            (last - first, hidden) float32.
        """
        m = next(iter(self._arrays)) if multiplier is None else multiplier
        begin = self._first[m][audio_key(talk)]
        frames = self._arrays[m][begin + first : begin + last]
        return torch.from_numpy(frames.astype(np.float32))


def encode_talks(
    encoder: BlockEncoder,
    talks: Sequence[Talk],
    multipliers: Iterable[int],
    *,
    device: torch.device,
    cache: Path | None = None,
) -> EncodedTalks:
    """Encode talks for each latency multiplier, unless the cache already has the frames.

    Frames whose file is damaged are encoded again.

    The encoder runs in bfloat16 autocast where the device computes fast in it.

    Args:
        encoder: Frozen speech encoder.
        talks: Talks to encode. The last block of each talk is padded with zeros.
        multipliers: Latency multipliers m, the encoder's block sizes in chunks.
        device: Device of the encoder.
        cache: Cache folder. None selects the default folder of ``cache_root``.
    """
    folder = cache_root(cache) / f"encoded-{_fingerprint(encoder, talks)}"
    multipliers = sorted(set(multipliers))
    files = {multiplier: folder / file_name(multiplier) for multiplier in multipliers}
    if not all(map(is_intact, files.values())):
        with lock_folder(folder):
            for multiplier, file in files.items():
                if not seal_if_complete(file):
                    _write(encoder.to(device), talks, multiplier, file)
                    seal(file)
    return EncodedTalks(folder, talks, multipliers, encoder)


def encode_frozen(
    backbone: EncodesTalks,
    talks: Sequence[Talk],
    *,
    multipliers: Collection[int],
    device: torch.device,
) -> EncodedTalks:
    """Encode talks with the encoder of a backbone; see ``encode_talks``.

    Raises ZooError if the configured encoder cannot encode whole talks.
    """
    blocks = backbone.block_sizes(multipliers)
    return encode_talks(backbone.encoder, talks, blocks, device=device)


def file_name(multiplier: int) -> str:
    """Return the name of the file with the frames for blocks of ``multiplier`` chunks."""
    return f"m{multiplier}.npy"


def audio_key(talk: Talk) -> tuple[str, float, float]:
    """Return file, offset and duration in seconds, which identify the audio of a talk."""
    return str(talk.file), talk.offset, talk.duration


def first_frames(encoder: BlockEncoder, talks: Sequence[Talk], multiplier: int) -> list[Frames]:
    """Return the index of each talk's first frame, followed by the total number of frames."""
    size = encoder.chunk_samples * multiplier
    sizes = [size // encoder.frame_samples * blocks_of(talk, size) for talk in talks]
    return [0, *np.cumsum(sizes).tolist()]


def _write(encoder: BlockEncoder, talks: Sequence[Talk], multiplier: int, path: Path) -> None:
    *firsts, total = first_frames(encoder, talks, multiplier)
    order = sorted(zip(talks, firsts, strict=True), key=lambda item: item[0].duration)
    streams = max(1, PARALLEL_CHUNKS // multiplier)
    groups = [order[first : first + streams] for first in range(0, len(order), streams)]
    with atomic_file(path) as unfinished:
        array = np.lib.format.open_memmap(
            unfinished, mode="w+", dtype=np.float16, shape=(total, encoder.config.hidden)
        )
        for group in show_progress(groups, total=len(groups), title=f"Encoding, m={multiplier}"):
            encoded = _encode(encoder, [talk for talk, _ in group], multiplier)
            for (_, first), frames in zip(group, encoded, strict=True):
                array[first : first + len(frames)] = frames
        array.flush()


@torch.inference_mode()
def _encode(
    encoder: BlockEncoder, talks: Sequence[Talk], multiplier: int
) -> list["np.ndarray[tuple[int, ...], np.dtype[np.float16]]"]:
    """Stream talks in parallel and return (frames, hidden) float16 of each talk."""
    size = encoder.chunk_samples * multiplier
    blocks = [blocks_of(talk, size) for talk in talks]
    waves = [audio.load(talk.file, start=talk.offset, duration=talk.duration) for talk in talks]
    waves = [
        functional.pad(wave, (0, count * size - wave.numel()))
        for wave, count in zip(waves, blocks, strict=True)
    ]

    states = [encoder.open() for _ in talks]
    device = states[0].left.device
    frames: list[list[Tensor]] = [[] for _ in talks]
    with torch.autocast(device.type, torch.bfloat16, enabled=fast_bfloat16(device.type)):
        for block in range(max(blocks)):
            live = [stream for stream, count in enumerate(blocks) if block < count]
            new = [waves[stream][block * size : (block + 1) * size].to(device) for stream in live]
            for stream, encoded in zip(
                live, encoder.stream([states[stream] for stream in live], new), strict=True
            ):
                frames[stream].append(encoded.half().cpu())
    return [torch.cat(blocks_of_talk).numpy() for blocks_of_talk in frames]


def _fingerprint(encoder: BlockEncoder, talks: Sequence[Talk]) -> str:
    """Return a hash of the encoder's non-default options, the encoder's weights and the audio."""
    config = encoder.config
    values = [(field.name, getattr(config, field.name), field.default) for field in fields(config)]
    options = {name: value for name, value, default in values if value != default}
    digest = hashlib.sha256(repr(options).encode())
    for name, tensor in encoder.state_dict().items():
        digest.update(name.encode() + tensor.detach().cpu().double().numpy().tobytes())
    digest.update(repr([audio_key(talk) for talk in talks]).encode())
    return digest.hexdigest()[:12]
