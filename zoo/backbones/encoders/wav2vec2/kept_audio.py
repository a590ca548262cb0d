"""Encoding of kept audio that grows from request to request.

The encoder attends to complete blocks and to earlier ones, so audio that arrives later does not
change the output of a complete block. A request therefore encodes the frames after the last
complete block only. If the start of the kept audio moves, all blocks are encoded again: blocks
count from this start, and what was before it is no longer attended to.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from zoo.backbones.decoding.batches import pick, put
from zoo.backbones.encoders.audio.feature_cache import FeatureCache
from zoo.backbones.encoders.wav2vec2.encoder import CHUNK_FRAMES, StreamingEncoder, joined_caches
from zoo.backbones.encoders.wav2vec2.features import KeptWave, final_frames, kept_features
from zoo.base.types import Frames, Samples


@dataclass(slots=True, eq=False)
class KeptAudio:
    """What a stream keeps of the encoding of its audio.

    Attributes:
        features: Features of the convolutions.
        hidden: (frames, hidden) encoder output of the complete blocks.
        cache: (layers, 2, heads, n, head size) keys and values of the last of these frames, which
            the next block attends to. The keys are not rotated.
        start: Stream position of the first encoded sample.
        block: Number of frames per block.
    """

    features: FeatureCache
    hidden: Tensor
    cache: Tensor
    start: Samples = 0
    block: Frames = 0

    @classmethod
    def of(cls, encoder: StreamingEncoder) -> Self:
        """Return the state of a stream without audio."""
        cache = encoder.empty_cache()
        empty = cache.new_zeros(0, encoder.config.hidden)
        return cls(FeatureCache(empty), empty, cache)

    def fit(self, start: Samples, block: Frames, complete: Frames) -> None:
        """Forget the blocks if they are not the beginning of the audio to encode.

        Args:
            start: Stream position of the first sample to encode.
            block: Number of frames per block.
            complete: Number of frames to encode that are in complete blocks.
        """
        if (self.start, self.block) != (start, block) or len(self.hidden) > complete:
            self.start, self.block = start, block
            self.hidden, self.cache = self.hidden[:0], self.cache[..., :0, :]


def encode_kept(
    encoder: StreamingEncoder,
    streams: Sequence[KeptAudio],
    waves: Sequence[KeptWave],
    *,
    block_chunks: int | None,
) -> list[Tensor]:
    """Encode the kept audio of each stream, as if the stream began with that audio.

    Args:
        encoder: The encoder.
        streams: State of each stream; changed in place.
        waves: Kept audio of each stream.
        block_chunks: Size of an encoder block, in chunks of 960 ms. None: all audio is one block,
            which is encoded at every request.

    Returns:
        (frames, hidden) output of the encoder for each stream.
    """
    features = kept_features(encoder, [stream.features for stream in streams], waves)
    longest = max(map(len, features))
    block = CHUNK_FRAMES * block_chunks if block_chunks else max(longest, 1)
    # Rounded angles depend on the distance from the first frame, which changes when audio is
    # dropped.
    reuses = block_chunks is not None and encoder.config.rope_angles == "exact"
    completes = []
    for stream, wave in zip(streams, waves, strict=True):
        complete = final_frames(encoder, wave) // block * block if reuses else 0
        stream.fit(wave.start, block, complete)
        completes.append(complete)

    new = [frames[len(stream.hidden) :] for stream, frames in zip(streams, features, strict=True)]
    live = [index for index, frames in enumerate(new) if len(frames)]
    outputs = [stream.hidden for stream in streams]
    if live:
        inputs = pick(streams, live), pick(new, live), pick(completes, live)
        put(outputs, live, _encode_new(encoder, *inputs))
    return outputs


def _encode_new(
    encoder: StreamingEncoder,
    streams: Sequence[KeptAudio],
    features: Sequence[Tensor],
    completes: Sequence[Frames],
) -> list[Tensor]:
    """Encode the features after the complete blocks of each stream, as one batch.

    Args:
        encoder: The encoder.
        streams: State of each stream, which receives its new complete blocks.
        features: (new, hidden) features of each stream, at least one frame.
        completes: Number of frames of each stream that are in complete blocks.

    Returns:
        (frames, hidden) output for all frames of each stream.
    """
    padded = pad_sequence(list(features), batch_first=True)  # (streams, longest, hidden)
    longest = padded.shape[1]
    cache = joined_caches([stream.cache for stream in streams], longest)
    past = cache.shape[4] - longest
    visible = torch.stack(
        [
            _visible(encoder, stream, len(frames), past=past, longest=longest)
            for stream, frames in zip(streams, features, strict=True)
        ]
    )
    hidden: Tensor = encoder.encoder(padded, visible[:, None], cache)[0]

    outputs = []
    for row, (stream, complete) in enumerate(zip(streams, completes, strict=True)):
        new = hidden[row, : len(features[row])]
        outputs.append(torch.cat([stream.hidden, new]))
        if (added := complete - len(stream.hidden)) > 0:
            num_cached = min(stream.cache.shape[3] + added, encoder.config.past_frames)
            end = past + added
            stream.cache = cache[:, :, row, :, end - num_cached : end].clone()
            stream.hidden = outputs[-1][:complete]
    return outputs


def _visible(
    encoder: StreamingEncoder, stream: KeptAudio, new: Frames, *, past: Frames, longest: Frames
) -> Tensor:
    """Return the attention mask of a stream, (longest, past + longest) bool.

    Args:
        encoder: The encoder.
        stream: State of the stream.
        new: Number of new frames; later ones are padding.
        past: Number of past frames in the batch; the first ones are padding.
        longest: Number of new frames in the batch.
    """
    first = len(stream.hidden)
    keys = torch.arange(first - past, first + longest, device=stream.hidden.device)
    queries = keys[past:]
    real = (keys >= first - stream.cache.shape[3]) & (keys < first + new)
    itself = queries[:, None] == keys  # padding attends to itself: no empty softmax
    return (encoder.visible(queries, keys, stream.block) & real) | itself
