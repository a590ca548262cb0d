"""Formant synthesis by espeak-ng, the default synthesizer: no weights and most languages."""

import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import espeakng_loader
import torch
from torch import Tensor

from zoo.base.errors import ZooError, check_numbers
from zoo.base.espeak.speech import Speaker
from zoo.base.languages import Language
from zoo.synthesizers.cascade import Cascade

VOICES = {"zh": "cmn"}  # languages whose code in espeak-ng differs from ours


class Espeak(Cascade):
    """Synthesises each newly emitted text with espeak-ng and trims the trailing silence.

    Equal texts have equal waveforms. The first text starts the espeak-ng process.

    Args:
        voice: espeak-ng voice such as ``de+f2``; None: the default voice of the target language.
        rate: speaking rate in words per minute, 80 to 450.
        pitch: base pitch on espeak-ng's scale of 0 to 99.
        pitch_range: intonation range on the same scale; 0 is monotonous.

    Raises:
        ZooError: a value is outside its range.
    """

    def __init__(
        self, *, voice: str | None = None, rate: int = 165, pitch: int = 60, pitch_range: int = 0
    ) -> None:
        check_numbers("Espeak", least=80, most=450, rate=rate)
        check_numbers("Espeak", least=0, most=99, pitch=pitch, pitch_range=pitch_range)

        self.voice = voice
        self.rate = rate
        self.pitch = pitch
        self.pitch_range = pitch_range
        self._speaker: Speaker | None = None
        self._process = ExitStack()
        weakref.finalize(self, self._process.close)

    def check(self, target: Language) -> None:
        """Raise ZooError if espeak-ng lacks the language or the configured voice."""
        data = Path(espeakng_loader.get_data_path())
        voices = {file.name.lower() for file in (data / "lang").rglob("*") if file.is_file()}
        voice = self._voice_for(target)
        if voice.split("+")[0].lower() not in voices:
            raise ZooError(
                f"espeak-ng has no voice {voice!r}; set synthesizer.voice to one of: "
                f"{', '.join(sorted(voices))}."
            )

    def synthesize_texts(self, texts: Sequence[str], target: Language) -> list[Tensor]:
        """Synthesise the texts one after the other; see ``Cascade``.

        Raises:
            ZooError: espeak-ng rejects a text, or its process died.
        """
        if self._speaker is None:
            self._speaker = self._process.enter_context(Speaker())
        utterances = [
            self._speaker.speak(
                [text],
                voice=self._voice_for(target),
                rate=self.rate,
                pitch=self.pitch,
                pitch_range=self.pitch_range,
                seed=0,
            )
            for text in texts
        ]
        return [torch.from_numpy(utterance.samples) for utterance in utterances]

    def _voice_for(self, target: Language) -> str:
        """Return the configured voice, or the default voice of the target language."""
        return self.voice or VOICES.get(target.code, target.code)
