"""Target speech that the model itself generates together with its text, as Hibiki does."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from zoo.base.types import Capability
from zoo.streaming.session import SpeechRequest
from zoo.synthesizers.base import Synthesizer


@dataclass(eq=False)
class OwnSpeech(Synthesizer):
    """Returns the speech of the hypotheses; nothing is synthesised from their text."""

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.WAVEFORM})

    def synthesize(self, requests: Sequence[SpeechRequest]) -> list[Tensor]:
        """Return the speech that each hypothesis brought along; see ``Synthesizer``.

        Raises:
            ValueError: A hypothesis has no speech although it was requested.
        """
        waveforms = []
        for request in requests:
            if request.hypothesis.speech is None:
                raise ValueError("The backbone returned no speech although it was requested.")
            waveforms.append(request.hypothesis.speech)
        return waveforms
