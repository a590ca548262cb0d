"""Which attention heads of a model align its outputs (AlignAtt, EDAtt, StreamAtt, SimulU).

``python -m zoo alignment-heads system=streamatt backbone=NAME evaluation.split=dev
[key=value ...]`` forces the reference of each sentence and compares the frame of the largest
attention weight with the time of the source word that each target word translates, for every head
of every layer and for means of the best heads. The overrides are those of ``evaluate.py``. The
corpus needs word times and alignments, as ``python -m zoo prepare`` makes them.

``--units`` compares the heads of SimulU's text-to-unit attention instead (system=simulu); see
``zoo.evaluation.unit_heads``. It needs references only.
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise
from operator import attrgetter
from statistics import median
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from zoo.backbones.decoding.alignment import AlignmentConfig, EveryHead, HeadAlignment
from zoo.base.errors import ZooError
from zoo.base.languages import Language
from zoo.base.machine.hints import program
from zoo.base.progress import show_progress
from zoo.base.talks import Segment, Talk
from zoo.base.types import SAMPLE_RATE, Capability, Hypothesis, Request, Seconds
from zoo.config import Config, build, machine, run_composed
from zoo.data.views import sentences
from zoo.evaluation import unit_heads
from zoo.evaluation.forced import forced_stream
from zoo.systems.base import StreamingSystem

TOLERANCE: Seconds = 0.2  # before the start and after the end of a source word
MOST_HEADS = 6  # of a mean
MOST_ROWS = 12  # single heads that are printed
COLUMNS = ("at the word (%)", "before (%)", "after (%)", "missed by (s)")

Span = tuple[Seconds, Seconds]  # start and end of a source word from the start of the audio


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence whose translation is forced.

    Attributes:
        talk: talk of one segment.
        token_ids: (n,) reference.
        spans: for each unit of the reference, the last source word that it translates; None for a
            unit without one.
    """

    talk: Talk
    token_ids: Tensor
    spans: tuple[Span | None, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """Where heads point, compared with the source words.

    Attributes:
        heads: pairs of layer and head.
        distances: for each target unit, the time from the source word to the frame with the largest
            weight; 0 within the word and ``TOLERANCE`` around it, negative before it.
    """

    heads: tuple[tuple[int, int], ...]
    distances: Sequence[Seconds]

    @property
    def hits(self) -> float:
        """Share of the units with a frame at their source word, in percent."""
        return self._percent(sum(distance == 0 for distance in self.distances))

    def cells(self) -> list[str]:
        """Return heads, shares and the median distance of the units that are missed as text."""
        early = self._percent(sum(distance < 0 for distance in self.distances))
        late = self._percent(sum(distance > 0 for distance in self.distances))
        missed = [abs(distance) for distance in self.distances if distance]
        return [
            " ".join(f"{layer}.{head}" for layer, head in self.heads),
            *(f"{share:.1f}" for share in (self.hits, early, late)),
            f"{median(missed):.2f}" if missed else "–",
        ]

    def _percent(self, count: int) -> float:
        return 100 * count / len(self.distances)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the heads of the model that the command line names.

    Args:
        arguments: command line without the program's name; None: ``sys.argv``.
    """
    parser = argparse.ArgumentParser(prog=program("alignment-heads"), description=__doc__)
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="as of evaluate.py")
    parser.add_argument(
        "--units", action="store_true", help="attention from speech units to text (system=simulu)"
    )
    given = parser.parse_args(arguments)
    run_composed(given.overrides, unit_heads.report if given.units else report)


def report(cfg: Config) -> None:
    """Print the best heads, means of them, the configured heads, and overrides for the best.

    Args:
        cfg: configuration of ``evaluate.py``, of which system, backbone, corpus, split, limit of
            talks and batch size are used.

    Raises:
        ZooError: the backbone has no alignment heads, or no sentence can be compared.
    """
    system = build(cfg.system)
    backbone = system.backbone if isinstance(system, StreamingSystem) else None
    if not isinstance(backbone, HeadAlignment):
        name = type(backbone or system).__name__
        raise ZooError(
            f"{name} has no alignment heads; choose a backbone with cross-attention or a speech "
            "LLM, such as backbone=whisper, seamless_m4t, offline_minitalks or lst_minitalks."
        )
    settings = build(cfg.evaluation)
    talks = build(cfg.data).talks(settings.split, limit=settings.talks)
    device = machine(cfg)
    system.configure_model()
    system.eval().to(device)

    compared = comparable(system, backbone, talks)
    configured = backbone.alignment
    measure = partial(measure_heads, system, backbone, compared, batch_size=settings.batch_size)
    own = measure(configured, title="Configured heads")
    each = measure(EveryHead(**options(configured)), title="Every head")
    best = sorted(each, key=lambda found: found.hits, reverse=True)
    pairs = [found.heads[0] for found in best]
    means = [
        found
        for count in range(2, min(MOST_HEADS, len(pairs)) + 1)
        for found in measure(replace(configured, heads=pairs[:count]), title=f"Best {count} heads")
    ]

    units = len(best[0].distances)
    print(f"{len(compared)} sentences, {units} units of the references with a source word")
    print_table("configured heads (layer.head)", own)
    print_table("single heads", best[:MOST_ROWS])
    print_table("means of the best heads", means)
    chosen = max([*best[:1], *means], key=lambda found: found.hits)
    listed = ",".join(f"[{layer},{head}]" for layer, head in chosen.heads)
    print(f"Largest share at the source word: 'backbone.alignment.heads=[{listed}]'")


def print_table(title: str, rows: Sequence[Found]) -> None:
    """Print what some heads point to."""
    table = Table(title, *COLUMNS, box=None)
    for found in rows:
        table.add_row(*found.cells())
    Console().print(table)


def comparable(
    system: StreamingSystem, backbone: HeadAlignment, talks: Sequence[Talk]
) -> list[Sentence]:
    """Return the sentences with word times and alignments whose tokens make up the same units.

    Args:
        system: system with its weights.
        backbone: its backbone.
        talks: talks of a corpus.

    Raises:
        ZooError: there is none.
    """
    target = system.target_language
    longest = system.backbone.longest_input
    found = []
    for talk in sentences(talks):
        segment = talk.segments[0]
        fits = longest is None or talk.duration * SAMPLE_RATE <= longest
        if fits and segment.words and target.code in segment.targets:
            spans = source_spans(segment, target)
            text = segment.targets[target.code].text
            ids = backbone.tokenizer.encode(text, add_special_tokens=False)
            if any(spans) and len(target.units(text)) == len(spans):
                found.append(Sentence(talk, torch.tensor(ids), spans))
    if not found:
        raise ZooError(
            f"No sentence of the corpus has word times and an alignment with {target.name}; "
            "python -m zoo prepare makes both."
        )
    return found


def source_spans(segment: Segment, target: Language) -> tuple[Span | None, ...]:
    """Return the last source word that each unit of the reference translates.

    Args:
        segment: segment with word times. A segment without word alignment has no spans.
        target: target language.
    """
    translation = segment.targets[target.code]
    spans: list[Span | None] = []
    for word, sources in zip(translation.words, translation.alignment, strict=False):
        last = max(
            (segment.words[source] for source in sources), key=attrgetter("end"), default=None
        )
        spans += [(last.start, last.end) if last else None] * len(target.units(word))
    return tuple(spans)


def options(alignment: AlignmentConfig) -> dict[str, Any]:
    """Return the options of an alignment that concern each head by itself."""
    return {
        name: value
        for name, value in asdict(alignment).items()
        if name not in ("layer", "heads", "average")
    }


def measure_heads(
    system: StreamingSystem,
    backbone: HeadAlignment,
    compared: Sequence[Sentence],
    alignment: AlignmentConfig,
    *,
    batch_size: int,
    title: str,
) -> list[Found]:
    """Force all references and compare the alignment with the source words.

    Args:
        system: system with its weights.
        backbone: its backbone.
        compared: sentences.
        alignment: heads that are averaged, or every head by itself.
        batch_size: number of sentences that are decoded together.
        title: name of the work.

    Returns:
        One result per group of heads that is aligned by itself.

    Raises:
        ZooError: the tokens of no reference begin its units.
    """
    backbone.align_with(alignment)
    batches = [
        compared[first : first + batch_size] for first in range(0, len(compared), batch_size)
    ]
    rows: list[Tensor] = []
    for batch in show_progress(batches, total=len(batches), title=title):
        sessions = [forced_stream(system, one.talk, one.token_ids) for one in batch]
        requests = [Request(max_words=1)] * len(batch)
        needs = frozenset({Capability.ALIGNMENT})
        hypotheses = system.backbone.decode(sessions, requests, needs)
        rows += [
            distances(hypothesis, sentence, system.backbone.frame_samples / SAMPLE_RATE)
            for hypothesis, sentence in zip(hypotheses, batch, strict=True)
        ]
    pairs = [
        (layer, head)
        for layer, chosen in backbone.heads.items()
        for head in (range(backbone.attention_shape[1]) if chosen is None else chosen)
    ]
    groups = [(pair,) for pair in pairs] if isinstance(alignment, EveryHead) else [tuple(pairs)]
    if not sum(map(len, rows)):
        raise ZooError(
            f"The tokens of no reference begin the units of {system.target_language.name}; is the "
            "tokenizer that of the model?"
        )
    return [
        Found(group, column.tolist())
        for group, column in zip(groups, torch.cat(rows).T, strict=True)
    ]


def distances(hypothesis: Hypothesis, sentence: Sentence, frame_seconds: Seconds) -> Tensor:
    """Return (units, groups) times from the source words to the frames; see ``Found``.

    The frame of a unit is the last one of its tokens, which the policies wait for. A hypothesis
    whose tokens begin other units has no rows.
    """
    assert hypothesis.alignment is not None
    tokens = len(sentence.token_ids)
    frames = hypothesis.alignment[:tokens].argmax(dim=-1).view(tokens, -1)  # (tokens, groups)
    starts = hypothesis.word_starts[:tokens].nonzero().flatten().tolist()
    if len(starts) != len(sentence.spans):
        return torch.zeros(0, frames.shape[1])
    rows = []
    for (first, end), span in zip(pairwise([*starts, tokens]), sentence.spans, strict=True):
        if span is not None:
            times = (frames[first:end].amax(dim=0) + 0.5) * frame_seconds
            begin, finish = span[0] - TOLERANCE, span[1] + TOLERANCE
            rows.append((times - begin).clamp(max=0) + (times - finish).clamp(min=0))
    return torch.stack(rows)


if __name__ == "__main__":
    main()
