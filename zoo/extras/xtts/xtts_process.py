"""Speaks texts with XTTS-v2; runs in the environment of coqui-tts, without the zoo.

It prints a JSON line ``{"version"}``, or ``{"error"}`` if coqui-tts cannot be imported, and ends
with its standard input. The first line of the input is ``{"folder", "reference", "temperature",
"seed", "threads"}``; weights and voice are loaded, and ``{"rate"}`` in Hz is printed. Each further
line ``{"text", "language", "device"}`` is answered with ``{"samples"}`` and the float32 samples.
"""

import json
import os
import sys
import textwrap
from pathlib import Path
from typing import Any, BinaryIO


class Voice:
    """XTTS-v2 with the voice of a recording.

    Args:
        folder: folder with config.json, model.pth and vocab.json.
        reference: path of the recording.
        temperature: sampling temperature.
        seed: random seed of every text.
        threads: CPU threads of torch.
    """

    def __init__(
        self, *, folder: str, reference: str, temperature: float, seed: int, threads: int
    ) -> None:
        import torch
        from TTS.tts.configs.xtts_config import XttsConfig
        from TTS.tts.models.xtts import Xtts

        torch.set_num_threads(threads)
        config = XttsConfig()
        config.load_json(str(Path(folder) / "config.json"))
        self.network = Xtts(config)
        self.network.load_checkpoint(config, checkpoint_dir=folder)
        self.rate: int = config.model_args.output_sample_rate
        self.temperature = temperature
        self.seed = seed

        latent, embedding = self.network.get_conditioning_latents(audio_path=[reference])
        self._conditioning = {"gpt_cond_latent": latent, "speaker_embedding": embedding}

    def speak(self, *, text: str, language: str, device: str) -> Any:
        """Synthesise a text, in pieces if it is long: (samples,) float32 at ``rate``.

        Args:
            text: the text.
            language: XTTS-v2's code of its language.
            device: device of torch.
        """
        import numpy as np
        import torch

        self.network.to(device)
        torch.manual_seed(self.seed)
        # XTTS-v2 cuts off the speech of a longer text, and refuses one of twice that length.
        limit = self.network.tokenizer.char_limits[language.partition("-")[0]]
        outputs = [
            self.network.inference(
                piece, language, **self._conditioning, temperature=self.temperature
            )
            for piece in textwrap.wrap(text, limit)
        ]
        return np.concatenate([np.atleast_1d(output["wav"]) for output in outputs]).astype("<f4")


def answer(output: BinaryIO, record: dict[str, Any], samples: bytes = b"") -> None:
    """Write a JSON line and samples at once."""
    output.write(json.dumps(record).encode() + b"\n" + samples)
    output.flush()


def main() -> None:
    """Serve the requests of standard input until it ends."""
    # Libraries that print must not write between the answers.
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        import TTS
    except ImportError as error:
        answer(output, {"error": " ".join(str(error).split())})
        return

    answer(output, {"version": TTS.__version__})
    if not (settings := sys.stdin.buffer.readline()):
        return
    voice = Voice(**json.loads(settings))
    answer(output, {"rate": voice.rate})
    for line in sys.stdin.buffer:
        wave = voice.speak(**json.loads(line))
        answer(output, {"samples": len(wave)}, wave.tobytes())


if __name__ == "__main__":
    main()
