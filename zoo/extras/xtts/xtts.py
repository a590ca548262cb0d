"""Text to speech by XTTS-v2 (Casanova et al., 2024) through the package coqui-tts.

coqui-tts needs torchaudio, of which no version fits the torch of the zoo, so that it runs in an
environment of its own (``make xtts``). Its weights have the Coqui Public Model License, which
excludes commercial use; the zoo does not download them.
"""

import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType

import soxr
import torch
from torch import Tensor, nn

from zoo.backbones.base import Backbone, reads_shapes
from zoo.base.errors import ZooError, check_numbers
from zoo.base.languages import Language
from zoo.base.types import SAMPLE_RATE
from zoo.extras.xtts.xtts_speaker import Speaker
from zoo.synthesizers.cascade import Cascade

FILES = ("config.json", "model.pth", "vocab.json")
LANGUAGES = ("ar", "cs", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pt", "ru", "tr")
CODES = {**{code: code for code in LANGUAGES}, "zh": "zh-cn"}  # XTTS-v2's code by the zoo's code
ALTERNATIVES = "Other synthesizers are synthesizer=espeak and synthesizer=seamless_tts."
ENVIRONMENT = ".venv-xtts/bin/python"  # of ``make xtts``


class XTTS(Cascade, nn.Module):
    """Synthesises each newly emitted text in the voice of a reference recording.

    Weights and voice are loaded once, into a process that ends with this object.

    Args:
        python: Python of an environment with coqui-tts, such as that of ``make xtts``.
        name: folder with config.json, model.pth and vocab.json of coqui/XTTS-v2.
        reference: path of a recording of the voice, at least 6 s long.
        temperature: sampling temperature, above 0.
        seed: random seed of every text, so that equal texts have equal waveforms.

    Raises:
        ZooError: ``temperature`` is not above 0.
    """

    user_parts = MappingProxyType({"name": "FOLDER", "reference": "RECORDING"})

    def __init__(
        self,
        *,
        python: str = ENVIRONMENT,
        name: str | None = None,
        reference: str | None = None,
        temperature: float = 0.75,
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_numbers("XTTS", above=0, temperature=temperature)

        self.python = python
        self.name = name
        self.reference = reference
        self.temperature = temperature
        self.seed = seed
        self.register_buffer("_place", torch.empty(0), persistent=False)  # on the system's device
        self._speaker: Speaker | None = None
        self._process = ExitStack()
        weakref.finalize(self, self._process.close)

    @classmethod
    def problem(cls, target: Language) -> str | None:
        """Return that XTTS-v2 lacks a language; see ``Synthesizer``."""
        return None if target.code in CODES else f"XTTS-v2 does not support {target.name}"

    def check(self, target: Language) -> None:
        """Check language, files and environment.

        Raises:
            ZooError: XTTS-v2 does not support ``target``; or the environment, coqui-tts in it, a
                file of the weights or the reference recording is missing.
        """
        if problem := self.problem(target):
            raise ZooError(
                f"{problem}; set target_language to one of: {', '.join(CODES)}. {ALTERNATIVES}"
            )
        if self.name is None or any(not (Path(self.name) / file).is_file() for file in FILES):
            raise ZooError(
                f"synthesizer.name must be a folder with {', '.join(FILES)} of coqui/XTTS-v2, not "
                f"{self.name}; download them if their licence (CPML, not for commercial use) "
                f"allows your use. {ALTERNATIVES}"
            )
        if self.reference is None or not Path(self.reference).is_file():
            raise ZooError(
                "synthesizer.reference must be a recording of the voice that XTTS-v2 imitates, not "
                f"{self.reference}."
            )
        if not Path(self.python).is_file():
            raise ZooError(
                f"XTTS-v2 needs an environment of its own, and there is no file {self.python}: run "
                "`make xtts`, or set synthesizer.python to the Python of an environment with "
                f"requirements-xtts.txt. {ALTERNATIVES}"
            )
        with Speaker(self._absolute(self.python)):  # raises ZooError without coqui-tts
            pass

    def load(self, backbone: Backbone) -> None:
        """Load the weights and encode the reference recording; see ``Synthesizer``.

        Raises:
            ZooError: the process ends, for example because a file is damaged.
        """
        if not reads_shapes():
            self._started()

    def synthesize_texts(self, texts: Sequence[str], target: Language) -> list[Tensor]:
        """Synthesise the texts one after the other, each from the same seed; see ``Cascade``.

        Raises:
            ZooError: the process ends.
        """
        speaker, device = self._started(), str(self._place.device)
        waves = [speaker.speak(text, CODES[target.code], device) for text in texts]
        return [torch.from_numpy(soxr.resample(wave, speaker.rate, SAMPLE_RATE)) for wave in waves]

    def _started(self) -> Speaker:
        """Return the process, with weights and voice."""
        if self._speaker is None:
            assert self.name is not None
            assert self.reference is not None
            speaker = self._process.enter_context(Speaker(self._absolute(self.python)))
            speaker.load(
                folder=self._absolute(self.name),
                reference=self._absolute(self.reference),
                temperature=self.temperature,
                seed=self.seed,
                threads=torch.get_num_threads(),
            )
            self._speaker = speaker
        return self._speaker

    @staticmethod
    def _absolute(path: str) -> str:
        """Return the absolute path; links stay, because a Python finds its environment by them."""
        return str(Path(path).absolute())
