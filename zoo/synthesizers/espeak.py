"""Target speech by espeak-ng, the built-in one: no weights, most languages, not natural. Knows no network."""

import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import espeakng_loader
import torch
from torch import Tensor

from zoo.data.minitalks.speech import Speaker
from zoo.errors import ZooError
from zoo.languages import Language
from zoo.synthesizers.cascade import Cascade

VOICES = {"zh": "cmn"}  # where espeak-ng's code of a language is not ours


class Espeak(Cascade):
    """Reads each write aloud, without the silence behind it.

    voice: of espeak-ng (``de+f2``); None: the target language's. rate: words per minute. pitch, pitch_range: 0 to 99;
    of range 0 is a monotone. Equal text sounds equal, whatever was said before.
    """

    def __init__(
        self, *, voice: str | None = None, rate: int = 165, pitch: int = 60, pitch_range: int = 0
    ) -> None:
        """Raises ZooError for values that espeak-ng does not know."""
        if not 80 <= rate <= 450:
            raise ZooError(f"Espeak needs a rate of 80 to 450 words per minute, not {rate}.")
        if not (0 <= pitch <= 99 and 0 <= pitch_range <= 99):
            raise ZooError(
                f"Espeak needs pitch and pitch_range of 0 to 99, not {pitch} and {pitch_range}."
            )
        self.voice = voice
        self.rate = rate
        self.pitch = pitch
        self.pitch_range = pitch_range
        self._speaker: Speaker | None = None
        self._process = ExitStack()
        weakref.finalize(self, self._process.close)

    def check(self, target: Language) -> None:
        """Raises ZooError for a language, or a voice, that espeak-ng does not have."""
        data = Path(espeakng_loader.get_data_path())
        known = {file.name.lower() for file in (data / "lang").rglob("*") if file.is_file()}
        voice = self._voice(target)
        if voice.split("+")[0].lower() not in known:
            raise ZooError(
                f"espeak-ng has no voice {voice!r}; set synthesizer.voice to one of: {', '.join(sorted(known))}."
            )

    def read(self, texts: Sequence[str], target: Language) -> list[Tensor]:
        """One after the other. Raises ZooError when espeak-ng refuses or dies."""
        return [self._say(text, target) for text in texts]

    def _say(self, text: str, target: Language) -> Tensor:
        if self._speaker is None:
            self._speaker = self._process.enter_context(Speaker())
        spoken = self._speaker.speak(
            [text],
            voice=self._voice(target),
            rate=self.rate,
            pitch=self.pitch,
            pitch_range=self.pitch_range,
            seed=0,
        )
        return torch.from_numpy(spoken.samples)

    def _voice(self, target: Language) -> str:
        return self.voice or VOICES.get(target.code, target.code)
