"""Target speech by SeamlessM4T's own text to speech: the cascade of SimulU's paper that has the same speech model.

Knows nothing of the backbone that translates.
"""

from collections.abc import Sequence

from torch import Tensor, nn

from zoo.backbones.base import Backbone
from zoo.backbones.seamless_m4t.text_to_speech import TextToSpeech
from zoo.languages import Language
from zoo.synthesizers.cascade import Cascade


class SeamlessTTS(Cascade, nn.Module):
    """Speaks each write on its own ("the partial generated text", section 3.3), whatever was written before.

    name: hub id or folder of a SeamlessM4T v1. voice: which of its vocoder's speakers. max_units: of one write.
    """

    def __init__(
        self, *, name: str, voice: int = 0, max_units: int = 1024, dtype: str = "float32"
    ) -> None:
        super().__init__()
        self.network = TextToSpeech(name=name, voice=voice, max_units=max_units, dtype=dtype)
        self._target: Language | None = None

    def check(self, target: Language) -> None:
        """Nothing without the model's files: which languages they tell of is looked up first in ``load``."""
        self._target = target

    def load(self, backbone: Backbone) -> None:
        """Raises ZooError, before weights are read, for another model and a language that it does not speak."""
        if self._target is not None:
            self.network.check(self._target)
        self.network.load()

    def read(self, texts: Sequence[str], target: Language) -> list[Tensor]:
        """A batch."""
        return [voiced.samples for voiced in self.network.speak(texts, target)]
