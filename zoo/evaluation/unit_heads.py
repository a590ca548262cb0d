"""Which attention of a text-to-unit model separates old speech from new speech (SimulU, step 6).

The reference of each sentence is forced and divided in the middle of its words. The units of the
first half, generated alone, show where it ends in the units of the whole sentence: at the beginning
with the smallest edit distance. This cut is compared with that of SimulU, by the attention of each
head and the configured options of the synthesizer (offset, normalisation, assignment, discard). No
reference of units is needed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from zoo.backbones.base import Units
from zoo.backbones.decoding.alignment import HeadAlignment
from zoo.backbones.decoding.unit_attention import UnitAlignment
from zoo.base.errors import ZooError
from zoo.base.progress import show_progress
from zoo.base.talks import Talk
from zoo.base.types import SAMPLE_RATE, Capability, Hypothesis, Request
from zoo.config import Config, build, machine
from zoo.data.views import sentences
from zoo.evaluation.forced import forced_stream
from zoo.streaming.session import SpeechRequest
from zoo.synthesizers.simulu import SimulU
from zoo.systems.base import StreamingSystem

MOST_HEADS = 6  # of a mean
MOST_ROWS = 12  # single heads that are printed
COLUMNS = ("missed by (units)", "exact (%)", "too early (%)", "too late (%)")

Pairs = tuple[tuple[int, int], ...]  # of a layer and a head


@dataclass(frozen=True, slots=True)
class Halves:
    """A forced sentence that is divided into two parts.

    Attributes:
        units: units of the whole sentence; ``attention`` is (units, heads, positions).
        old: number of tokens of the first part.
        new: number of tokens of the second part.
        expected: number of units of the first part.
    """

    units: Units
    old: int
    new: int
    expected: int

    def cut_error(self, synthesizer: SimulU, heads: Sequence[int]) -> int:
        """Return the number of units between the expected cut and that of the mean of heads.

        Args:
            synthesizer: how units are assigned and discarded.
            heads: indices of the heads.

        Returns:
            Negative if the cut is too early, so that speech of the first part is repeated.
        """
        attention = self.units.attention[:, list(heads)].mean(dim=1)
        units = replace(self.units, attention=attention)
        new = int(synthesizer.new_units(units, old=self.old, new=self.new).sum())
        return len(units.ids) - new - self.expected


def report(cfg: Config) -> None:
    """Print how well layers, heads and means of the best heads cut, and the override for the best.

    Args:
        cfg: configuration of ``evaluate.py``, of which system, backbone, synthesizer, corpus,
            split, limit of talks and batch size are used.

    Raises:
        ZooError: the system is not SimulU, or no sentence can be compared.
    """
    system = build(cfg.system)
    backbone, synthesizer = _parts(system)
    settings = build(cfg.evaluation)
    talks = build(cfg.data).talks(settings.split, limit=settings.talks)
    device = machine(cfg)
    system.configure_model()
    system.eval().to(device)
    layers, heads = backbone.unit_attention_shape()
    configured = backbone.unit_attention.chosen(layers=layers, heads=heads)
    halves = divide_sentences(system, backbone, synthesizer, talks, batch_size=settings.batch_size)

    def errors(pairs: Pairs) -> list[int]:
        indices = [layer * heads + head for layer, head in pairs]
        return [one.cut_error(synthesizer, indices) for one in halves]

    def sort_by_error(groups: Mapping[str, Pairs]) -> dict[str, list[int]]:
        found = {name: errors(pairs) for name, pairs in groups.items()}
        return dict(sorted(found.items(), key=lambda item: distance(item[1])))

    every = [tuple((layer, head) for head in range(heads)) for layer in range(layers)]
    pairs = {f"{layer}.{head}": ((layer, head),) for row in every for layer, head in row}
    own = tuple(
        (layer, head)
        for layer, numbers in configured.items()
        for head in (range(heads) if numbers is None else numbers)
    )
    print(f"{len(halves)} sentences, {sum(len(one.units.ids) for one in halves)} units")
    print_table("configured attention", {names(own): errors(own)})
    rows = sort_by_error({f"layer {layer}": row for layer, row in enumerate(every)})
    overrides = {name: f"backbone.unit_layer={name.split()[1]}" for name in rows}
    means = {"mean of all layers": errors(sum(every, ()))}
    print_table("layers (mean of the heads)", rows | means)
    single = sort_by_error(pairs)
    print_table("single heads (layer.head)", dict(list(single.items())[:MOST_ROWS]))
    best = [pairs[name][0] for name in single]
    groups = [tuple(best[:count]) for count in range(1, min(MOST_HEADS, len(best)) + 1)]
    of_heads = sort_by_error({names(group): group for group in groups})
    print_table("means of the best heads", of_heads)
    for group in groups:
        listed = ",".join(f"[{layer},{head}]" for layer, head in group)
        overrides[names(group)] = f"'backbone.unit_heads=[{listed}]'"
    candidates = rows | of_heads
    chosen = min(candidates, key=lambda name: distance(candidates[name]))
    print(f"Best layer: {overrides[next(iter(rows))]}; best of all: {overrides[chosen]}")


def names(pairs: Pairs) -> str:
    """Return heads as text, ``layer.head`` each."""
    return " ".join(f"{layer}.{head}" for layer, head in pairs)


def distance(errors: Sequence[int]) -> float:
    """Return the mean distance from the expected cut, in units."""
    return mean(map(abs, errors))


def print_table(title: str, rows: Mapping[str, Sequence[int]]) -> None:
    """Print the distances from the expected cuts, and how many cuts are exact, early and late."""
    table = Table(title, *COLUMNS, box=None)
    for name, errors in rows.items():
        counts = (
            sum(error == 0 for error in errors),
            sum(error < 0 for error in errors),
            sum(error > 0 for error in errors),
        )
        shares = (f"{100 * count / len(errors):.1f}" for count in counts)
        table.add_row(name, f"{distance(errors):.2f}", *shares)
    Console().print(table)


def _parts(system: object) -> tuple[UnitAlignment, SimulU]:
    """Return backbone and synthesizer of a SimulU system."""
    if isinstance(system, StreamingSystem):
        backbone, synthesizer = system.backbone, system.synthesizer
        if isinstance(backbone, UnitAlignment) and isinstance(synthesizer, SimulU):
            return backbone, synthesizer
    raise ZooError(
        "--units compares the attention from speech units to text; choose system=simulu and a "
        "backbone with speech output, such as backbone=simulu_minitalks or seamless_m4t_speech."
    )


@torch.inference_mode()
def divide_sentences(
    system: StreamingSystem,
    backbone: UnitAlignment,
    synthesizer: SimulU,
    talks: Sequence[Talk],
    *,
    batch_size: int,
) -> list[Halves]:
    """Generate the units of all sentences, and of the first half of their words.

    Args:
        system: system with its weights.
        backbone: its backbone; it returns the attention of every head from now on.
        synthesizer: its synthesizer.
        talks: talks of a corpus.
        batch_size: number of sentences that are processed together.

    Returns:
        The sentences with at least two words whose units end before their maximum number.

    Raises:
        ZooError: there is none.
    """
    backbone.unit_attention = replace(
        backbone.unit_attention, layer=None, heads=None, average=False
    )
    texts = comparable(system, talks)
    batches = [texts[first : first + batch_size] for first in range(0, len(texts), batch_size)]
    close = synthesizer.close != "never"
    found = []
    for batch in show_progress(batches, total=len(batches), title="Units"):
        whole, hypotheses = speak(system, backbone, batch, close=close)
        cuts = [middle(hypothesis) for hypothesis in hypotheses]
        begun = [(talk, ids[:cut]) for (talk, ids), cut in zip(batch, cuts, strict=True) if cut]
        alone = iter(speak(system, backbone, begun, close=close)[0] if begun else [])
        for (_, ids), units, cut in zip(batch, whole, cuts, strict=True):
            first = next(alone) if cut else None
            if first is not None and not (units.truncated or first.truncated):
                expected = length_of_beginning(units.ids.tolist(), first.ids.tolist())
                found.append(Halves(units, cut, len(ids) - cut, expected))
    if not found:
        raise ZooError(
            f"No sentence of the corpus has a reference in {system.target_language.name} of at "
            "least two words whose units end before backbone.max_units."
        )
    return found


def length_of_beginning(whole: Sequence[int], part: Sequence[int]) -> int:
    """Return the length of the beginning of ``whole`` with the smallest edit distance to ``part``.

    Of equal distances, the shortest beginning is chosen: a part that was generated alone ends with
    units of a pause, which the whole does not have there.

    Args:
        whole: units of a text.
        part: units of the beginning of the text, generated alone.
    """
    # Distances of the beginnings of ``whole`` to the units of ``part`` so far, at first to none.
    row = list(range(len(whole) + 1))
    for count, unit in enumerate(part, start=1):
        before, row = row, [count]
        for index, other in enumerate(whole):
            row.append(min(before[index] + (unit != other), before[index + 1] + 1, row[index] + 1))
    return min(range(len(row)), key=row.__getitem__)


def comparable(system: StreamingSystem, talks: Sequence[Talk]) -> list[tuple[Talk, Tensor]]:
    """Return the sentences that the backbone accepts, with the tokens of their references."""
    target, backbone = system.target_language, system.backbone
    assert isinstance(backbone, HeadAlignment)
    longest = backbone.longest_input
    return [
        (talk, torch.tensor(tokens))
        for talk in sentences(talks)
        if longest is None or talk.duration * SAMPLE_RATE <= longest
        if target.code in talk.segments[0].targets
        if (
            tokens := backbone.tokenizer.encode(
                talk.segments[0].targets[target.code].text, add_special_tokens=False
            )
        )
    ]


def speak(
    system: StreamingSystem,
    backbone: UnitAlignment,
    texts: Sequence[tuple[Talk, Tensor]],
    *,
    close: bool,
) -> tuple[list[Units], list[Hypothesis]]:
    """Force texts and generate their units.

    Args:
        system: system with its weights.
        backbone: its backbone.
        texts: sentences and the (n,) ids of their texts.
        close: whether an end of text follows.

    Returns:
        Units and hypothesis of each text; the first n rows of a hypothesis are the text's.
    """
    sessions = [forced_stream(system, talk, ids) for talk, ids in texts]
    needs = frozenset({Capability.SPEECH})
    requests = [Request(max_words=1)] * len(sessions)
    hypotheses = system.backbone.decode(sessions, requests, needs)
    spoken = [
        SpeechRequest(session, hypothesis, 0, "")  # the forced tokens alone
        for session, hypothesis in zip(sessions, hypotheses, strict=True)
    ]
    return backbone.generate_units(spoken, close=close), hypotheses


def middle(hypothesis: Hypothesis) -> int:
    """Return the token at which the second half of the forced words begins; 0: fewer than two."""
    starts = hypothesis.word_starts[: hypothesis.prefix_length].nonzero().flatten().tolist()
    return starts[len(starts) // 2] if len(starts) > 1 else 0
