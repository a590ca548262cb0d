"""python benchmarks/simulu_units.py [--clips N] [override ...]: which attention tells the word that a unit says?

Held-out clips of target speech. First table: share of the units, those of the speech itself, whose assign_units token
belongs to the word that is spoken then, by the synthesiser's word times; the text decoder hears the source, and the
text has no end, as in the middle of a talk. Second table: word error rate of the recogniser on speech that is made of
the texts, by their number of words. The last line is one JSON object.
"""

import argparse
import itertools
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.recogniser import resynthesised
from zoo.backbones.seamless_m4t.speaker import OPENING
from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.config import Config, build, compose
from zoo.data.clips import Clip, ClipConfig, Clips
from zoo.errors import run_script
from zoo.languages import Language, language
from zoo.metrics.asr import recogniser_errors
from zoo.objectives.text_to_unit import UnitBatch, UnitCollator, text_states
from zoo.recognisers.base import Recogniser
from zoo.synthesizers.assignment import Assignment, Normalisation, assign_units, unit_token_scores

AT_ONCE = 20  # clips
SEED = 1  # of the clips: those of the training have 0, and other talks
NORMALISATIONS: tuple[Normalisation, ...] = ("none", "share", "z_score")
ASSIGNMENTS: tuple[Assignment, ...] = ("argmax", "monotone")
LENGTHS = {"1-3": range(1, 4), "4-9": range(4, 10), "10 and more": range(10, 1000)}  # words

Choice = tuple[str, int, Normalisation, Assignment]  # layer, offset, normalisation, assignment


@dataclass(frozen=True, slots=True)
class Memory:
    """What the text decoder reads. heard: the source audio; otherwise the text itself. open: the text has no end."""

    heard: bool
    open: bool

    @property
    def name(self) -> str:
        """As the table has it."""
        return f"{'heard' if self.heard else 'read'}, {'open' if self.open else 'closed'}"

    def batches(self, backbone: SeamlessM4TSpeech, clips: Sequence[Clip]) -> Iterator[UnitBatch]:
        """The clips, in order."""
        collate = UnitCollator.of(backbone, state=0)
        for first in range(0, len(clips), AT_ONCE):
            few = clips[first : first + AT_ONCE]
            yield collate(few, heard=len(few) if self.heard else 0, opened=[self.open] * len(few))


def attentions(backbone: SeamlessM4TSpeech, batch: UnitBatch) -> dict[str, Tensor]:
    """(B, U, T) per layer of the text-to-unit decoder, mean of its heads, and of all layers, teacher-forced."""
    states = text_states(backbone, batch)
    inside = torch.arange(states.shape[1]) < batch.texts[:, None]
    t2u = backbone.speaker.t2u
    t2u.set_attn_implementation("eager")  # the other ones tell no weights
    said = t2u(
        inputs_embeds=states,
        attention_mask=inside.long(),
        decoder_input_ids=batch.inputs,
        output_attentions=True,
        use_cache=False,
    )
    layers = [layer.mean(dim=1) for layer in said.cross_attentions]
    named = {str(number): layer for number, layer in enumerate(layers)}
    return named | {"mean": torch.stack(layers).mean(dim=0)}


def assignments(backbone: SeamlessM4TSpeech, clips: Sequence[Clip]) -> dict[Choice, float]:
    """Share of the units that fall to a token of the word that is spoken, by what assigns them."""
    right: Counter[Choice] = Counter()
    units = 0
    for batch in Memory(heard=True, open=True).batches(backbone, clips):
        said = batch.spoken.any(dim=-1)
        units += int(said.sum())
        for layer, attention in attentions(backbone, batch).items():
            for row, queries, length, spoken in zip(
                attention, said, batch.texts.tolist(), batch.spoken, strict=True
            ):
                for offset, normalisation in itertools.product((0, -1), NORMALISATIONS):
                    scores = unit_token_scores(
                        row[queries, :length],
                        opening=OPENING,
                        tokens=length - OPENING,
                        offset=offset,
                        normalisation=normalisation,
                    )
                    for assignment in ASSIGNMENTS:
                        tokens = assign_units(scores, assignment=assignment)
                        told = spoken[queries, OPENING:].gather(1, tokens[:, None])
                        right[layer, offset, normalisation, assignment] += int(told.sum())
    return {choice: count / units for choice, count in right.items()}


def speeches(
    backbone: SeamlessM4TSpeech, clips: Sequence[Clip], target: Language
) -> Iterator[tuple[str, list[Tensor]]]:
    """Ways to speak the clips, and their waves (n,)."""
    yield "espeak-ng itself", [clip.samples for clip in clips]
    yield "its units, vocoder", resynthesised(backbone, [clip.samples for clip in clips], target)
    for memory in (
        Memory(heard=True, open=True),
        Memory(heard=True, open=False),
        Memory(heard=False, open=False),
    ):
        units: list[Tensor] = []
        for batch in memory.batches(backbone, clips):
            states = text_states(backbone, batch)
            rows = [row[:length] for row, length in zip(states, batch.texts.tolist(), strict=True)]
            told = backbone.speaker.units(rows, [target] * len(rows), layer=None)
            units += [one.ids for one in told]
        yield memory.name, [voiced.samples for voiced in backbone.vocode(units, target)]


def errors(
    heard: Sequence[str], clips: Sequence[Clip], target: Language, recogniser: Recogniser
) -> dict[str, float]:
    """Word error rates in percent, by the length of the text where there is one."""
    found = {}
    for name, lengths in {"all": range(1000), **LENGTHS}.items():
        pairs = [
            (said, clip.excerpt.text)
            for said, clip in zip(heard, clips, strict=True)
            if len(clip.words) in lengths
        ]
        if not pairs:
            continue
        texts = [text for _, text in pairs]
        scores = recogniser_errors(
            [said for said, _ in pairs], texts, language=target, recogniser=recogniser.name
        )
        found[name] = round(scores["ASR_WER"].value or 0.0, 2)
    return found


def accuracy_table(found: dict[Choice, float]) -> Table:
    """A line per layer and offset."""
    ways = list(itertools.product(NORMALISATIONS, ASSIGNMENTS))
    table = Table(
        "layer", "offset", *(f"{normalisation}, {way}" for normalisation, way in ways), box=None
    )
    for layer, offset in dict.fromkeys((layer, offset) for layer, offset, _, _ in found):
        table.add_row(
            layer, str(offset), *(f"{100 * found[layer, offset, *way]:.1f}" for way in ways)
        )
    return table


def error_table(found: dict[str, dict[str, float]]) -> Table:
    """A line per way to speak."""
    table = Table("WER of", *next(iter(found.values())), box=None)
    for name, line in found.items():
        table.add_row(name, *(f"{value:g}" for value in line.values()))
    return table


def held_out(cfg: Config, count: int) -> list[Clip]:
    """Clips of development talks, in the voice that is trained."""
    talks = build(cfg.data).talks("dev")
    return list(Clips(talks, language(cfg.target_language), ClipConfig(count=count, seed=SEED)))


@torch.inference_mode()
def main() -> None:
    """Measure, print tables and the numbers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--clips", type=int, default=200, help="held-out clips (default: 200)")
    parser.add_argument("overrides", nargs="*", help="Hydra overrides of conf/evaluate.yaml")
    options = parser.parse_intermixed_args()
    if options.clips < 1:
        parser.error("--clips must be at least 1")
    torch.set_num_threads(1)
    cfg = compose("evaluate", ["system=simulu", "backbone.reader=true", *options.overrides])
    target = language(cfg.target_language)
    clips = held_out(cfg, options.clips)
    backbone: SeamlessM4TSpeech = build(cfg.backbone)
    backbone.load()
    found = assignments(backbone, clips)
    Console(width=120).print(accuracy_table(found))
    recogniser: Recogniser = build(cfg.recogniser)
    rates: dict[str, dict[str, float]] = {}
    if missing := recogniser.unavailable_reason():
        print(missing)
    else:
        recogniser.load()
        for name, spoken in speeches(backbone, clips, target):
            rates[name] = errors(recogniser.transcribe(spoken), clips, target, recogniser)
        Console(width=120).print(error_table(rates))
    told = {"/".join(map(str, choice)): round(share, 4) for choice, share in found.items()}
    print(
        json.dumps(
            {"benchmark": "simulu_units", "clips": len(clips), "accuracy": told, "wer": rates}
        )
    )


if __name__ == "__main__":
    run_script(main)
