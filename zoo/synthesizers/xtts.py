"""Target speech by XTTS-v2 (Casanova et al., 2024) through the package coqui-tts, which is not part of the zoo.

The package asks for torchaudio and torchcodec, which the zoo does without, and its weights are under the Coqui Public
Model License: not for commercial use. So neither is installed or downloaded here: what is missing is said, once.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import soxr
import torch
from torch import Tensor, nn

from zoo.backbones.base import Backbone
from zoo.errors import ZooError
from zoo.languages import Language
from zoo.synthesizers.cascade import Cascade
from zoo.types import SAMPLE_RATE

PACKAGES = ("TTS", "torchaudio", "torchcodec")
FILES = ("config.json", "model.pth", "vocab.json")
CODES = {
    **{
        code: code
        for code in ("ar", "cs", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pt", "ru", "tr")
    },
    "zh": "zh-cn",
}
INSTEAD = "or choose synthesizer=espeak or synthesizer=seamless_tts"


class XTTS(Cascade, nn.Module):
    """Reads each write aloud in the voice of a recording.

    name: folder with XTTS-v2 (config.json, model.pth, vocab.json of coqui/XTTS-v2). reference: a recording of the
    voice, 6 s or more. seed: speech is sampled, and equal text then sounds equal. temperature: of the sampling.
    """

    def __init__(
        self,
        *,
        name: str | None = None,
        reference: str | None = None,
        temperature: float = 0.75,
        seed: int = 0,
    ) -> None:
        """Raises ZooError for a temperature that is not above 0."""
        super().__init__()
        if temperature <= 0:
            raise ZooError(f"XTTS needs a temperature above 0, not {temperature}.")
        self.name = name
        self.reference = reference
        self.temperature = temperature
        self.seed = seed
        self.network: Any = None
        self.rate = SAMPLE_RATE
        self._voice: dict[str, Any] = {}

    def check(self, target: Language) -> None:
        """Raises ZooError for a language XTTS-v2 does not speak, and where package, weights or voice are missing."""
        if target.code not in CODES:
            raise ZooError(
                f"XTTS-v2 does not speak {target.name}; set target_language to one of: {', '.join(CODES)}, {INSTEAD}."
            )
        missing = [package for package in PACKAGES if find_spec(package) is None]
        if missing:
            raise ZooError(
                f"XTTS-v2 needs the package coqui-tts, with a torchaudio and a torchcodec that fit this torch; Python "
                f"does not find {', '.join(missing)}: see docs/simulu.md, {INSTEAD}."
            )
        if self.name is None or any(not (Path(self.name) / file).is_file() for file in FILES):
            raise ZooError(
                f"synthesizer.name must be a folder with {', '.join(FILES)} of coqui/XTTS-v2, not {self.name}: "
                f"download it if its licence (CPML, not for commercial use) allows what you do, {INSTEAD}."
            )
        if self.reference is None or not Path(self.reference).is_file():
            raise ZooError(
                f"synthesizer.reference must be a recording of the voice that XTTS-v2 speaks in, not {self.reference}."
            )

    def load(self, backbone: Backbone) -> None:
        """Read weights and the voice of the reference. Raises ZooError where the package cannot be imported."""
        try:
            from TTS.tts.configs.xtts_config import XttsConfig
            from TTS.tts.models.xtts import Xtts
        except (ImportError, OSError) as error:
            raise ZooError(
                f"coqui-tts cannot be imported ({str(error).strip().splitlines()[-1]}); {INSTEAD}."
            ) from error
        assert self.name is not None
        config = XttsConfig()
        config.load_json(str(Path(self.name) / "config.json"))
        self.network = Xtts(config)
        self.network.load_checkpoint(config, checkpoint_dir=self.name)
        self.rate = config.model_args.output_sample_rate
        latent, embedding = self.network.get_conditioning_latents(audio_path=[self.reference])
        self._voice = {"gpt_cond_latent": latent, "speaker_embedding": embedding}

    def read(self, texts: Sequence[str], target: Language) -> list[Tensor]:
        """One after the other, each from the same seed."""
        return [self._say(text, CODES[target.code]) for text in texts]

    def _say(self, text: str, code: str) -> Tensor:
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            told = self.network.inference(text, code, **self._voice, temperature=self.temperature)
        wave = np.atleast_1d(np.asarray(told["wav"], dtype=np.float32))
        return torch.from_numpy(soxr.resample(wave, self.rate, SAMPLE_RATE))
