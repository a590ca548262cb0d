"""python benchmarks/recogniser.py [--split tst] [--talks N] [--vocoder FOLDER] [override ...]: how well does it hear?

The references of a split, sentence by sentence, spoken by espeak-ng: as training clips are by default (this is the
ASR_WER of evaluations), with the words of each in random order, in a voice that training clips do not have, and in
white noise; with --vocoder also as a unit vocoder says the units of the clean speech, which it was never trained on.
Word and character error rates in percent, texts normalised as in evaluations. The last line is one JSON object.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.config import build, compose
from zoo.data.units import collapsed
from zoo.data.utterances import Line, spoken
from zoo.errors import ZooError, run_script
from zoo.languages import Language, language
from zoo.metrics.asr import speech_errors
from zoo.recognisers.base import Recogniser
from zoo.recognisers.clean_speech import clean_line

UNSEEN = "f3"  # variant of the language's voice
NOISE = 15.0  # decibels below the speech


def forms(texts: Sequence[str], target: Language) -> dict[str, list[Line]]:
    """How the texts are spoken, by name."""
    clean = [clean_line(text, target) for text in texts]
    random = np.random.default_rng(0)
    shuffled = [replace(one, words=tuple(random.permutation(one.words).tolist())) for one in clean]
    other = [replace(one, voice=f"{one.voice}+{UNSEEN}", pitch=50, pitch_range=50) for one in clean]
    return {"clean": clean, "shuffled words": shuffled, "unseen voice": other, "noise": clean}


def heard(name: str, lines: Sequence[Line]) -> list[Tensor]:
    """(n,) waves of the lines, spoken under this name."""
    utterances = spoken(lines)
    waves = [torch.from_numpy(utterances.speech(index)) for index in range(len(lines))]
    if name != "noise":
        return waves
    generator = torch.Generator().manual_seed(0)
    factor = 10 ** (-NOISE / 20)
    return [
        w + factor * w.square().mean().sqrt() * torch.randn(len(w), generator=generator)
        for w in waves
    ]


def vocoder(folder: str) -> SeamlessM4TSpeech:
    """The small SeamlessM4T of a folder. Raises ZooError where there is none, or none with units of its own."""
    backbone: SeamlessM4TSpeech = build(
        compose("evaluate", ["system=simulu", f"backbone.name={folder}"]).backbone
    )
    backbone.load()
    if backbone.codebook is None:
        raise ZooError(
            f"{folder} has no units.safetensors: which units speech consists of is not known."
        )
    return backbone


def resynthesised(
    speaker: SeamlessM4TSpeech, waves: Sequence[Tensor], target: Language
) -> list[Tensor]:
    """The units of waves (n,), said by the vocoder."""
    assert speaker.codebook is not None, "vocoder has checked it"
    units = [collapsed(speaker.codebook.encode(wave))[0] for wave in waves]
    return [voiced.samples for voiced in speaker.vocode(units, target)]


def errors(
    recogniser: Recogniser, waves: Sequence[Tensor], lines: Sequence[Line], target: Language
) -> dict[str, float]:
    """Error rates of what is understood of the waves, which say the lines."""
    said = [" ".join(one.words) for one in lines]
    scores = speech_errors(
        recogniser.transcribe(waves), said, language=target, recogniser=recogniser.name
    )
    return {kind: round(float(scores[f"Speech{kind}"].value or 0.0), 2) for kind in ("WER", "CER")}


def measured(
    recogniser: Recogniser,
    texts: Sequence[str],
    target: Language,
    speaker: SeamlessM4TSpeech | None = None,
) -> dict[str, dict[str, float]]:
    """Error rates by form; the last one by ``speaker``, where there is one."""
    said = forms(texts, target)
    found = {
        name: errors(recogniser, heard(name, lines), lines, target) for name, lines in said.items()
    }
    if speaker is not None:
        lines = said["clean"]
        waves = resynthesised(speaker, heard("clean", lines), target)
        found["unit vocoder"] = errors(recogniser, waves, lines, target)
    return found


def main() -> None:
    """Speak, listen, print a table and the numbers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--split", default="tst", help="whose references are spoken (default: tst)")
    parser.add_argument(
        "--talks", type=int, default=None, help="only the first talks (default: all)"
    )
    parser.add_argument(
        "--vocoder", help="folder of a small SeamlessM4T whose vocoder speaks, too (default: none)"
    )
    parser.add_argument("overrides", nargs="*", help="Hydra overrides of conf/evaluate.yaml")
    options = parser.parse_intermixed_args()
    torch.set_num_threads(1)
    cfg = compose("evaluate", options.overrides)
    target = language(cfg.target_language)
    recogniser: Recogniser = build(cfg.recogniser)
    if missing := recogniser.unavailable_reason():
        raise ZooError(missing)
    talks = build(cfg.data).talks(options.split, limit=options.talks)
    texts = [segment.targets[target.code].text for talk in talks for segment in talk.segments]
    speaker = vocoder(options.vocoder) if options.vocoder else None
    recogniser.load()
    found = measured(recogniser, texts, target, speaker)
    table = Table("speech", "WER (%)", "CER (%)", box=None)
    for name, scores in found.items():
        table.add_row(name, *(f"{score:.2f}" for score in scores.values()))
    Console(width=120).print(table)
    print(
        json.dumps(
            {
                "benchmark": "recogniser",
                "split": options.split,
                "sentences": len(texts),
                "errors": found,
            }
        )
    )


if __name__ == "__main__":
    run_script(main)
