"""What cascades share: each write's text is given to a text-to-speech model as it comes (SimulU, section 3.3)."""

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from zoo.languages import Language
from zoo.streaming.session import Write
from zoo.synthesizers.base import Synthesizer


class Cascade(Synthesizer):
    """Speaks the newly written text and nothing else; text without a letter or digit is silent."""

    def speak(self, writes: Sequence[Write]) -> list[Tensor]:
        """One batch of all texts that there is something to say of."""
        waves = [torch.zeros(0)] * len(writes)
        said = [index for index, write in enumerate(writes) if any(map(str.isalnum, write.text))]
        if said:
            texts = [writes[index].text.strip() for index in said]
            for index, wave in zip(said, self.read(texts, writes[0].session.target), strict=True):
                waves[index] = wave
        return waves

    @abstractmethod
    def read(self, texts: Sequence[str], target: Language) -> list[Tensor]:
        """(n_i,) waveforms at 16 kHz of texts, each with a letter or digit, in the language of the system."""
