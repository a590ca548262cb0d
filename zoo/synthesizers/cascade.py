"""The base class of cascades: a text-to-speech model that receives only the newly emitted text."""

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from zoo.backbones.decoding.batches import put
from zoo.base.languages import Language
from zoo.streaming.session import SpeechRequest
from zoo.synthesizers.base import Synthesizer


class Cascade(Synthesizer):
    """Synthesises each newly emitted text separately, as the cascades in SimulU's paper do.

    The paper is Djanibekov et al. (2026), section 3.3. The waveform of a text without a letter or a
    digit is empty.
    """

    def synthesize(self, requests: Sequence[SpeechRequest]) -> list[Tensor]:
        """Synthesise all texts with a letter or a digit in one call; see ``Synthesizer``."""
        waveforms = [torch.zeros(0)] * len(requests)
        pronounceable = [
            index for index, request in enumerate(requests) if any(map(str.isalnum, request.text))
        ]

        if pronounceable:
            texts = [requests[index].text.strip() for index in pronounceable]
            target = requests[0].session.target_language
            put(waveforms, pronounceable, self.synthesize_texts(texts, target))
        return waveforms

    @abstractmethod
    def synthesize_texts(self, texts: Sequence[str], target: Language) -> list[Tensor]:
        """Synthesise texts, each with at least one letter or digit.

        Args:
            texts: texts in the target language.
            target: the system's target language.

        Returns:
            One (samples,) float32 waveform at 16 kHz per text.
        """
