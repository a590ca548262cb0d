"""Text to speech by SeamlessM4T: the cascade of SimulU's paper with the same speech decoder."""

from collections.abc import Sequence

from torch import Tensor, nn

from zoo.backbones.base import Backbone
from zoo.backbones.seamless_m4t.text_to_speech import DecodedText, TextToSpeech
from zoo.base.languages import Language
from zoo.synthesizers.cascade import Cascade


class SeamlessTTS(Cascade, nn.Module):
    """Synthesises each newly emitted text without any context.

    SimulU (Djanibekov et al., 2026, section 3.3) calls it "the partial generated text".

    Args:
        name: hub id or folder of a SeamlessM4T v1.
        voice: index of the vocoder's speaker.
        text: text that is spoken: ``generated`` from the emitted text by the text decoder, as in
            the published model's text to speech, or ``forced``, the emitted text itself.
        max_units: maximum number of units generated for one text.
        dtype: dtype of the weights, by its name in torch.

    Raises:
        ZooError: ``text`` or ``dtype`` is unknown.
    """

    def __init__(
        self,
        *,
        name: str,
        voice: int = 0,
        text: DecodedText = "generated",
        max_units: int = 1024,
        dtype: str = "float32",
    ) -> None:
        super().__init__()
        self.network = TextToSpeech(
            name=name, voice=voice, text=text, max_units=max_units, dtype=dtype
        )
        self._target: Language | None = None  # target language of the system; ``check`` sets it

    def check(self, target: Language) -> None:
        """Store the target language; ``load`` checks it, because that needs the model's files."""
        self._target = target

    def load(self, backbone: Backbone) -> None:
        """Load the weights; see ``Synthesizer``.

        Raises:
            ZooError: before weights are loaded, if ``name`` is another model or if the model does
                not speak the target language.
        """
        if self._target is not None:
            self.network.check(self._target)
        self.network.load()

    def synthesize_texts(self, texts: Sequence[str], target: Language) -> list[Tensor]:
        """Synthesise all texts in one batch; see ``Cascade``."""
        return [speech.samples for speech in self.network.synthesize(texts, target)]
