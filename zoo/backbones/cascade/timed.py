"""Source frames of a transcript's tokens, and alignments of a translation through them.

The alignment of a cascade is composed of two: the translator's self-attention from target tokens to
the tokens of the transcript in its prompt, and the frame to which the transcriber attends at each
token of the transcript (AlignAtt4LLM, arXiv:2606.03967, has a forced aligner for the latter).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from zoo.base.types import Frames, Hypothesis, StopRule


@dataclass(frozen=True, slots=True)
class TimedTranscript:
    """A transcript with the source frame of each character.

    Attributes:
        text: The transcript without surrounding spaces.
        frames: (characters,) int64 frame of each character of ``text``; never decreasing. None if
            the transcriber gave no alignment.
        num_frames: Number of frames of the transcribed audio, at least one.
    """

    text: str
    frames: Tensor | None = None
    num_frames: Frames = 1

    def tokens(self, characters: Sequence[int | None]) -> "SourceTokens":
        """Return the frames of the translator's tokens of the transcript.

        Args:
            characters: Last character of the transcript in each token of a prompt, and None for
                other tokens; see ``CascadePrompt.transcript_characters``.

        Raises:
            ValueError: If the transcriber gave no alignment.
        """
        if self.frames is None:
            raise ValueError("The transcriber returned no alignment although it was requested.")
        positions = [index for index, character in enumerate(characters) if character is not None]
        last = torch.tensor([character for character in characters if character is not None])
        return SourceTokens(positions[0], self.frames[last], self.num_frames)


@dataclass(frozen=True, slots=True)
class SourceTokens:
    """The tokens of a transcript in a prompt of the translator.

    Attributes:
        first: Position of the first token in the prompt. The others follow it.
        frames: (tokens,) int64 source frame of each token.
        num_frames: Number of frames of the transcribed audio.
    """

    first: int
    frames: Tensor
    num_frames: Frames

    def at_frames(self, weights: Tensor) -> Tensor:
        """Give each frame the sum of the weights of the tokens at the frame.

        A frame without a token gets the smallest weight of the target token, or 0 if no weight is
        negative: weights that are normalised to z-scores can be.

        Example:
            With ``frames`` 1, 1 and 3 of four, the weights 0.2, 0.3 and 0.5 become 0, 0.5, 0 and
            0.5.

        Args:
            weights: (..., tokens) weights of the tokens of the transcript. The last tokens may be
                missing (``AlignmentConfig.ignore_last``).

        Returns:
            (..., num_frames) weights.
        """
        frames = self.frames[: weights.shape[-1]].to(weights.device)
        smallest = weights.amin(dim=-1, keepdim=True).clamp(max=0)
        placed = smallest.repeat(*[1] * (weights.dim() - 1), self.num_frames)
        return placed.index_fill(-1, frames, 0).index_add(-1, frames, weights)

    def stop_rule(self, rule: StopRule | None) -> StopRule | None:
        """Convert a stop rule of a policy, which reads frames, to one that reads tokens.

        Args:
            rule: Marks target tokens by their weights at the frames. None: no token is marked.
        """
        if rule is None:
            return None

        def stop(weights: Tensor, tokens: Tensor) -> Tensor:
            placed = self.at_frames(weights[:, : int(tokens[0])])
            return rule(placed, torch.full_like(tokens, self.num_frames))

        return stop


def time_transcript(transcript: Hypothesis, decode: Callable[[list[int]], str]) -> TimedTranscript:
    """Give each character of a transcript the frame to which its token attends most.

    The frame of a token is at least that of the token before it.

    Args:
        transcript: Answer of the transcriber.
        decode: Detokenises ids of a transcript.
    """
    text = (transcript.transcript or "").strip()
    if transcript.alignment is None:
        return TimedTranscript(text)

    ids = transcript.token_ids.tolist()
    whole = decode(ids)
    indent = len(whole) - len(whole.lstrip())
    frames: list[int] = []
    latest = 0
    for count, attended in enumerate(transcript.attended_frames.tolist(), start=1):
        latest = max(latest, attended)
        # An incomplete character is decoded as one or more replacement characters.
        end = len(text) if count == len(ids) else len(decode(ids[:count])) - indent
        frames += [latest] * (min(end, len(text)) - len(frames))
    frames += [latest] * (len(text) - len(frames))
    return TimedTranscript(text, torch.tensor(frames, dtype=torch.long), transcript.num_frames)
