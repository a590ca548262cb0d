"""The words of a stream's transcripts that are committed: consecutive transcripts agree on them.

It is LocalAgreement (Liu et al., 2020) on the source, the first stage of cascades whose translator
receives only words that the recogniser will not revise (SimulStreaming, AlignAtt4LLM).
"""

import re
from itertools import takewhile

import torch
from torch import Tensor

from zoo.backbones.cascade.timed import TimedTranscript
from zoo.base.types import UnitKind

UNITS = {"word": re.compile(r"\S+"), "char": re.compile(r"\S")}


class CommittedWords:
    """Words on which two consecutive transcripts of the kept audio agree.

    Committed words are never revised. The words of a new transcript after as many words as are
    committed are compared with those of the transcript before, and equal ones are committed, up to
    the first difference.

    Example:
        After the transcripts "the cat", "the hat sat", "the hat sat down" and "a hat sat down here"
        the committed words are "", "the", "the hat sat" and "the hat sat down".
    """

    def __init__(self, unit: UnitKind) -> None:
        """Begin without a word.

        Args:
            unit: Whether the words of the source language are words or characters.
        """
        self._pattern = UNITS[unit]
        self._text = ""
        self._frames: Tensor | None = None
        self._count = 0
        self._previous: list[str] = []

    def commit(self, transcript: TimedTranscript, *, everything: bool) -> TimedTranscript:
        """Commit words of a new transcript.

        Args:
            transcript: Transcript of the kept audio.
            everything: Commit all words after the committed ones, because no transcript will
                follow.

        Returns:
            The committed words, with their frames if ``transcript`` has frames.
        """
        found = list(self._pattern.finditer(transcript.text))
        words = [match[0] for match in found]
        pairs = zip(self._previous[self._count :], words[self._count :], strict=False)
        agreed = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        end = len(words) if everything else self._count + agreed
        if end > self._count:
            begin = found[self._count - 1].end() if self._count else 0
            self._append(transcript, begin, found[end - 1].end())
            self._count = end
        self._previous = words
        return TimedTranscript(self._text, self._frames, transcript.num_frames)

    def _append(self, transcript: TimedTranscript, begin: int, end: int) -> None:
        """Append the characters from ``begin`` to ``end`` of a transcript, with their frames."""
        self._text += transcript.text[begin:end]
        if transcript.frames is not None:
            earlier = torch.empty(0, dtype=torch.long) if self._frames is None else self._frames
            frames = torch.cat([earlier, transcript.frames[begin:end]])
            self._frames = frames.cummax(dim=0).values
