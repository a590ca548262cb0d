"""Text to speech by XTTS-v2 (Casanova et al., 2024) through the package coqui-tts.

coqui-tts depends on torchaudio and torchcodec, which the zoo does not use, and its weights have the
Coqui Public Model License, which excludes commercial use. Therefore the zoo neither installs the
package nor downloads the weights; ``XTTS.check`` names the missing part.
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
from zoo.errors import ZooError, check_numbers
from zoo.languages import Language
from zoo.synthesizers.cascade import Cascade
from zoo.types import SAMPLE_RATE

PACKAGES = ("TTS", "torchaudio", "torchcodec")
FILES = ("config.json", "model.pth", "vocab.json")
LANGUAGES = ("ar", "cs", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pt", "ru", "tr")
CODES = {**{code: code for code in LANGUAGES}, "zh": "zh-cn"}  # XTTS-v2's code by the zoo's code
ALTERNATIVES = "Other synthesizers are synthesizer=espeak and synthesizer=seamless_tts."


class XTTS(Cascade, nn.Module):
    """Synthesises each newly emitted text in the voice of a reference recording.

    Args:
        name: folder with config.json, model.pth and vocab.json of coqui/XTTS-v2.
        reference: path of a recording of the voice, at least 6 s long.
        temperature: sampling temperature, above 0.
        seed: random seed of every text, so that equal texts have equal waveforms.

    Raises:
        ZooError: ``temperature`` is not above 0.
    """

    def __init__(
        self,
        *,
        name: str | None = None,
        reference: str | None = None,
        temperature: float = 0.75,
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_numbers("XTTS", above=0, temperature=temperature)

        self.name = name
        self.reference = reference
        self.temperature = temperature
        self.seed = seed
        self.network: Any = None
        self.rate = SAMPLE_RATE  # sample rate of the network's output; ``load`` sets it
        self._conditioning: dict[str, Any] = {}

    def check(self, target: Language) -> None:
        """Check language, package, weights and reference recording.

        Raises:
            ZooError: XTTS-v2 does not support ``target``, or a package, a file of the weights or
                the reference recording is missing.
        """
        if target.code not in CODES:
            raise ZooError(
                f"XTTS-v2 does not support {target.name}; set target_language to one of: "
                f"{', '.join(CODES)}. {ALTERNATIVES}"
            )

        missing = [package for package in PACKAGES if find_spec(package) is None]
        if missing:
            raise ZooError(
                "XTTS-v2 needs the package coqui-tts, with a torchaudio and a torchcodec that fit "
                f"this torch; Python does not find {', '.join(missing)}. See docs/simulu.md. "
                f"{ALTERNATIVES}"
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

    def load(self, backbone: Backbone) -> None:
        """Load the weights and encode the reference recording; see ``Synthesizer``.

        Raises:
            ZooError: coqui-tts cannot be imported.
        """
        try:
            from TTS.tts.configs.xtts_config import XttsConfig
            from TTS.tts.models.xtts import Xtts
        except (ImportError, OSError) as error:
            lines = str(error).strip().splitlines()
            reason = lines[-1] if lines else type(error).__name__
            raise ZooError(f"coqui-tts cannot be imported ({reason}). {ALTERNATIVES}") from error

        assert self.name is not None
        config = XttsConfig()
        config.load_json(str(Path(self.name) / "config.json"))
        self.network = Xtts(config)
        self.network.load_checkpoint(config, checkpoint_dir=self.name)
        self.rate = config.model_args.output_sample_rate

        latent, embedding = self.network.get_conditioning_latents(audio_path=[self.reference])
        self._conditioning = {"gpt_cond_latent": latent, "speaker_embedding": embedding}

    def synthesize_texts(self, texts: Sequence[str], target: Language) -> list[Tensor]:
        """Synthesise the texts one after the other, each from the same seed; see ``Cascade``."""
        return [self._synthesize_text(text, CODES[target.code]) for text in texts]

    def _synthesize_text(self, text: str, code: str) -> Tensor:
        """Synthesise a text in the language of XTTS-v2's ``code``: (samples,) at 16 kHz."""
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            output = self.network.inference(
                text, code, **self._conditioning, temperature=self.temperature
            )
        waveform = np.atleast_1d(np.asarray(output["wav"], dtype=np.float32))
        return torch.from_numpy(soxr.resample(waveform, self.rate, SAMPLE_RATE))
