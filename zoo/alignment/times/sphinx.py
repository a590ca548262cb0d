"""Word times of English speech by pocketsphinx, whose package contains the model.

The aligner of pocketsphinx (Huggins-Daines et al., 2006) runs faster than real time on one core and
needs no download, but knows only the words of its dictionary.
"""

import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo.alignment.times.base import TimedWords
from zoo.base.audio import files as audio
from zoo.base.errors import ZooError, check_choice, shorten_list
from zoo.base.languages import language as language_of
from zoo.base.talks import Segment, Talk, Word
from zoo.base.types import SAMPLE_RATE
from zoo.data.word_times import transcript_words

if TYPE_CHECKING:
    import torch
    from torch import Tensor

logger = logging.getLogger(__name__)

FRAME_RATE = 100  # frames per second of the decoder
# The decoder loses the path of some segments, above all with digital silence, which very little
# noise changes: 33 of 142 sentences of minitalks without noise, 9 after four attempts.
ATTEMPTS = 4
BEAM = 1e-60  # paths below this share of the best one are pruned
# Words of the dictionary: letters with apostrophes in and around them ("don't", "'em", "o'").
SPOKEN = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
VARIANT = re.compile(r"\(\d+\)$")  # number of a pronunciation, as in "to(3)"
APOSTROPHES = str.maketrans("\u2019\u02bc", "''")


class SphinxTimes:
    """The aligner of the package ``pocketsphinx`` with its English model.

    A segment with a word that its dictionary lacks, such as a number in digits, is not aligned.
    Words joined by a hyphen are looked up one by one.

    Args:
        language: code of the language of the transcripts; only en.

    Raises:
        ZooError: the language is another one.
    """

    def __init__(self, *, language: str = "en") -> None:
        check_choice("language of pocketsphinx", language, ("en",))
        self.language = language_of(language)
        self._decoder: Any = None

    def check(self) -> None:
        """See ``WordTimer``."""
        if find_spec("pocketsphinx") is None:
            raise ZooError(
                "Word times by pocketsphinx need its package: pip install 'simulzoo[align]'."
            )

    def load(self, device: "torch.device | None" = None) -> None:
        """Load the model; it runs on the CPU. See ``WordTimer``."""
        self.check()
        if self._decoder is None:
            self._decoder = _decoder()

    def times(self, talk: Talk, segments: Sequence[Segment]) -> list[TimedWords]:
        """See ``WordTimer``; call ``load`` first."""
        assert self._decoder is not None, "call load first"
        return [self._timed(talk, segment) for segment in segments]

    def _timed(self, talk: Talk, segment: Segment) -> TimedWords:
        """Align one segment."""
        words = spoken_words(segment.source)
        if not words:
            return TimedWords(problem="the transcript has no word")
        unknown = [word for word in words if self._decoder.lookup_word(word) is None]
        if unknown:
            names = shorten_list(dict.fromkeys(unknown))
            return TimedWords(problem=f"the dictionary of pocketsphinx lacks {names}")

        samples = audio.load(
            talk.file, start=talk.offset + segment.offset, duration=segment.duration
        )
        for attempt in range(ATTEMPTS):
            aligned = self._align(_dithered(samples, attempt + 1), segment, words)
            if [VARIANT.sub("", word.text) for word in aligned] == words:
                timed = transcript_words(replace(segment, words=tuple(aligned)), self.language)
                return TimedWords(tuple(timed))
        return TimedWords(problem="pocketsphinx found no alignment")

    def _align(self, pcm: bytes, segment: Segment, words: Sequence[str]) -> list[Word]:
        """Return the words that the decoder finds, in seconds from the start of the talk.

        Args:
            pcm: audio of the segment, 16-bit integers.
            segment: the segment.
            words: words of its transcript that are in the dictionary.
        """
        try:
            self._decoder.set_align_text(" ".join(words))
            self._decoder.start_utt()
            self._decoder.process_raw(pcm, full_utt=True)
            self._decoder.end_utt()
        except RuntimeError as error:
            logger.warning("pocketsphinx cannot align %r: %s", segment.source, error)
            # A new decoder, because the old one may be inside an utterance.
            self._decoder = _decoder()
            return []
        if self._decoder.hyp() is None:
            return []
        return [
            Word(
                item.word,
                segment.offset + item.start_frame / FRAME_RATE,
                min(segment.end, segment.offset + (item.end_frame + 1) / FRAME_RATE),
            )
            for item in self._decoder.seg()
            if not item.word.startswith(("<", "["))  # silence and noise
        ]


def _dithered(samples: "Tensor", amplitude: int) -> bytes:
    """Return samples as 16-bit integers with noise that depends on nothing but its arguments.

    Args:
        samples: (n,) samples.
        amplitude: largest absolute value of the noise.
    """
    noise = np.random.default_rng(amplitude).integers(
        -amplitude, amplitude, len(samples), endpoint=True
    )
    values = np.round(samples.numpy() * 32767) + noise
    return values.clip(-32768, 32767).astype(np.int16).tobytes()


def _decoder() -> Any:
    """Load the English model."""
    from pocketsphinx import Decoder

    beams = dict.fromkeys(("beam", "wbeam", "pbeam"), BEAM)
    return Decoder(samprate=SAMPLE_RATE, lm=None, loglevel="FATAL", **beams)


def spoken_words(text: str) -> list[str]:
    """Split a transcript into lower-case words as dictionaries of pronunciations have them."""
    return SPOKEN.findall(text.translate(APOSTROPHES).lower())
