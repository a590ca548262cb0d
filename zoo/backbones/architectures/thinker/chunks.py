"""Feature frames of Qwen3-Omni and Qwen3-ASR, and the time that their speech embeddings cover.

The features are Whisper's spectrogram of the kept audio, mirrored at both of its ends, because the
published processor does not pad a recording.

The encoder divides the features into chunks of 1 s. Its convolutions compute an embedding per 8
frames of 10 ms of each chunk, so a chunk of 100 frames has 13 embeddings: the first 12 cover 80 ms
each, and the last one covers the 40 ms that are left. A grid of 40 ms therefore fits all of them.
Source frames, in which alignments and cuts count, are those 40 ms: each frame is aligned by the
embedding that covers it, two frames by each of the first 12 embeddings of a chunk, and one by the
last. The chunks begin where the kept audio begins.
"""

import torch
from torch import Tensor

from zoo.backbones.encoders.audio.spectrogram import HOP, whisper_features
from zoo.base.types import Frames, Samples

CHUNK = 100  # feature frames of 10 ms
STRIDE = 8  # feature frames per embedding
CHUNK_EMBEDDINGS = -(-CHUNK // STRIDE)  # 13, rounded up
FRAME: Samples = 4 * HOP  # 40 ms, of which an embedding covers one or two
CHUNK_FRAMES: Frames = CHUNK * HOP // FRAME  # 25


def encoder_inputs(frames: Tensor) -> Tensor:
    """Clamp and scale log energies (n, bins) as Whisper does, to encoder input (n, bins).

    Log energies are clamped to at least the maximum minus 8. A loud sound therefore changes earlier
    frames too.
    """
    return whisper_features(frames, len(frames)) if len(frames) else frames


def num_embeddings(features: int) -> int:
    """Number of speech embeddings of a number of feature frames."""
    chunks, rest = divmod(features, CHUNK)
    return chunks * CHUNK_EMBEDDINGS + -(-rest // STRIDE)  # rounded up


def frame_embeddings(samples: Samples, embeddings: int) -> Tensor:
    """Return the embedding that covers each source frame.

    Example:
        1.12 s of audio have 112 feature frames, 15 embeddings and 28 source frames, which are
        covered by the embeddings 0 0 1 1 ... 11 11 12 13 13 14.

    A last frame that is too short for a feature frame is covered by the last embedding.

    Args:
        samples: Number of samples of the audio.
        embeddings: Number of its embeddings, at least 1.

    Returns:
        (frames,) int64 indices of embeddings; an incomplete last frame counts.
    """
    frame = torch.arange(-(-samples // FRAME))  # rounded up
    chunk = frame // CHUNK_FRAMES
    within = frame % CHUNK_FRAMES * FRAME // (STRIDE * HOP)
    return (chunk * CHUNK_EMBEDDINGS + within).clamp(max=embeddings - 1)
