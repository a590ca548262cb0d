"""What a frozen encoder hears in the training talks, computed once and read by every step. Knows no decoder.

A stage that freezes the encoder would otherwise encode the same speech at every step of every run: other languages,
seeds and ablations on one encoder share what lies here.
"""

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor
from torch.nn import functional

from zoo import audio
from zoo.backbones.common.wav2vec2.encoder import CHUNK_FRAMES, CHUNK_SAMPLES, StreamingEncoder
from zoo.data.cache import cache_root, locked
from zoo.data.robust_segments import Stretch, blocks_of
from zoo.data.talks import Talk
from zoo.types import Frames

SIDE_BY_SIDE = (
    16  # chunks of different talks encoded at once; more would no longer fit into a CPU's caches
)


class EncodedTalks:
    """Frames of whole talks as they come while streaming, per latency multiplier m.

    folder: one ``m<multiplier>.npy`` each, (frames of all talks, hidden) float16, talk after talk.
    """

    def __init__(self, folder: Path, talks: Sequence[Talk], multipliers: Iterable[int]) -> None:
        self._arrays = {m: np.load(folder / file_name(m), mmap_mode="r") for m in multipliers}
        self._first = {
            m: dict(zip(map(place, talks), firsts(talks, m), strict=True)) for m in self._arrays
        }

    def frames(self, stretch: Stretch, multiplier: int) -> Tensor:
        """(48 x chunks, hidden) float32 of a stretch of whole blocks on the talk's grid."""
        chunk = round(stretch.start / stretch.chunk_seconds)
        return self.between(
            stretch.talk, multiplier, CHUNK_FRAMES * chunk, CHUNK_FRAMES * (chunk + stretch.chunks)
        )

    def between(self, talk: Talk, multiplier: int, first: Frames, last: Frames) -> Tensor:
        """(last - first, hidden) float32 of a talk's frames."""
        begin = self._first[multiplier][place(talk)]
        frames = self._arrays[multiplier][begin + first : begin + last]
        return torch.from_numpy(frames.astype(np.float32))


def encode_talks(
    encoder: StreamingEncoder,
    talks: Sequence[Talk],
    multipliers: Iterable[int],
    *,
    device: torch.device,
    cache: Path | None = None,
) -> EncodedTalks:
    """Encode ``talks`` with blocks of each of ``multipliers`` chunks, where the cache does not have them yet.

    A talk's last block is filled up with zeros. In bf16 autocast: float16 keeps no more of it.
    """
    folder = cache_root(cache) / f"encoded-{_fingerprint(encoder, talks)}"
    multipliers = sorted(set(multipliers))
    with locked(folder):
        for multiplier in multipliers:
            if not (folder / file_name(multiplier)).is_file():
                _write(encoder.to(device), talks, multiplier, folder / file_name(multiplier))
    return EncodedTalks(folder, talks, multipliers)


def file_name(multiplier: int) -> str:
    """Of the frames with blocks of ``multiplier`` chunks."""
    return f"m{multiplier}.npy"


def place(talk: Talk) -> tuple[str, float, float]:
    """What is heard: file, offset and duration. Two cuts of one recording are two places."""
    return str(talk.file), talk.offset, talk.duration


def firsts(talks: Sequence[Talk], multiplier: int) -> list[Frames]:
    """Where each talk's frames begin."""
    sizes = [
        CHUNK_FRAMES * multiplier * blocks_of(talk, CHUNK_SAMPLES * multiplier) for talk in talks
    ]
    return [0, *np.cumsum(sizes).tolist()][:-1]


def _write(encoder: StreamingEncoder, talks: Sequence[Talk], multiplier: int, path: Path) -> None:
    total = sum(
        CHUNK_FRAMES * multiplier * blocks_of(talk, CHUNK_SAMPLES * multiplier) for talk in talks
    )
    unfinished = path.with_suffix(".part")
    array = np.lib.format.open_memmap(
        unfinished, mode="w+", dtype=np.float16, shape=(total, encoder.config.hidden)
    )
    order = sorted(
        zip(talks, firsts(talks, multiplier), strict=True), key=lambda item: item[0].duration
    )
    streams = max(1, SIDE_BY_SIDE // multiplier)
    groups = [order[first : first + streams] for first in range(0, len(order), streams)]
    console = Console(stderr=True)
    steps = track(
        groups,
        description=f"encoding, m={multiplier}",
        console=console,
        disable=not console.is_terminal,
    )
    for group in steps:
        for first, frames in zip(
            [first for _, first in group], _encode(encoder, group, multiplier), strict=True
        ):
            array[first : first + len(frames)] = frames
    array.flush()
    os.replace(unfinished, path)


@torch.inference_mode()
def _encode(
    encoder: StreamingEncoder, group: Sequence[tuple[Talk, Frames]], multiplier: int
) -> list[np.ndarray]:
    """Stream talks side by side; each gives (frames, hidden)."""
    size = CHUNK_SAMPLES * multiplier
    heard = [audio.load(talk.file, start=talk.offset, duration=talk.duration) for talk, _ in group]
    blocks = [blocks_of(talk, size) for talk, _ in group]
    heard = [
        functional.pad(one, (0, n * size - one.numel()))
        for one, n in zip(heard, blocks, strict=True)
    ]
    states = [encoder.open() for _ in group]
    device = states[0].left.device
    frames: list[list[Tensor]] = [[] for _ in group]
    with torch.autocast(device.type, torch.bfloat16):
        for block in range(max(blocks)):
            live = [stream for stream, count in enumerate(blocks) if block < count]
            new = [heard[stream][block * size : (block + 1) * size].to(device) for stream in live]
            for stream, encoded in zip(
                live, encoder.stream([states[stream] for stream in live], new), strict=True
            ):
                frames[stream].append(encoded.half().cpu())
    return [torch.cat(parts).numpy() for parts in frames]


def _fingerprint(encoder: StreamingEncoder, talks: Sequence[Talk]) -> str:
    """Of the encoder's shape (what is not default) and weights and of what is heard."""
    config = encoder.config
    given = [(field.name, getattr(config, field.name), field.default) for field in fields(config)]
    shape = {name: value for name, value, default in given if value != default}
    digest = hashlib.sha256(repr(shape).encode())
    for name, tensor in encoder.state_dict().items():
        digest.update(name.encode() + tensor.detach().cpu().double().numpy().tobytes())
    digest.update(repr([place(talk) for talk in talks]).encode())
    return digest.hexdigest()[:12]
