"""python docs/one_chunk.py [--step N] [override ...]: one chunk's way through the zoo, with shapes.

Streams the first talk of the test set through InfiniSST, records one step from samples to words,
then follows these words into the Instance and the scores of the whole talk. Prints the table of
docs/one_chunk.md.
"""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.base.errors import ZooError
from zoo.base.machine.commands import run_script
from zoo.base.talks import Talk
from zoo.base.types import SAMPLE_RATE, Hypothesis, Instance
from zoo.config import build, compose, machine
from zoo.evaluation.talks import reference_segments
from zoo.metrics.longform import score_talks
from zoo.streaming.simulate import mark_final, simulate
from zoo.streaming.sources import sources
from zoo.systems.base import StreamingSystem

Line = tuple[str, str, str]  # stage, what it holds, value


@dataclass(slots=True)
class StepRecord:
    """Output shapes by module name and the hypothesis of one step."""

    shapes: dict[str, list[int]]
    hypothesis: Hypothesis | None = None


@contextmanager
def recording_step(backbone: InfiniSST) -> Iterator[StepRecord]:
    """Record module outputs and the result of ``decode`` during one step, without side effects."""
    record = StepRecord({})
    modules = {
        "convolutions": backbone.encoder.feature_extractor,
        "encoder": backbone.encoder.encoder,
        "adapter": backbone.adapter,
    }

    def hook_for(name: str) -> Any:
        def note(module: nn.Module, inputs: Any, output: Any) -> None:
            tensor = output if isinstance(output, Tensor) else output[0]
            record.shapes[name] = list(tensor.shape)

        return note

    hooks = [module.register_forward_hook(hook_for(name)) for name, module in modules.items()]
    decode = backbone.decode

    def answered(*arguments: Any) -> list[Hypothesis]:
        hypotheses = decode(*arguments)
        record.hypothesis = hypotheses[0]
        return hypotheses

    backbone.decode = answered  # type: ignore[method-assign]
    try:
        yield record
    finally:
        del backbone.decode  # restores the method of the class
        for hook in hooks:
            hook.remove()


def follow_step(system: StreamingSystem, talk: Talk, *, step: int | None) -> tuple[int, list[Line]]:
    """Number of the step (``step``, or the second one that emits text) and a line per station."""
    backbone = system.backbone
    if not isinstance(backbone, InfiniSST):
        raise ZooError(
            f"one_chunk.py follows InfiniSST; the system's backbone is {type(backbone).__name__}."
        )
    [source] = sources([talk], system.target_language, chunk_samples=system.chunk_samples)
    session, received, num_emissions = system.open(talk.name), 0, 0
    for number, chunk in enumerate(mark_final(source.chunks)):
        waiting, state = session.audio.numel(), session.backbone_state
        before = state.num_cached, state.next_position
        received += chunk.samples.numel()
        with recording_step(backbone) as record:
            [action] = system.step([session], [chunk])
        num_emissions += bool(action.text)
        if number == step or (step is None and num_emissions == 2):
            begin = (received - chunk.samples.numel()) / SAMPLE_RATE
            end = received / SAMPLE_RATE
            words = [
                word
                for segment in talk.segments
                for word in segment.words
                if begin < word.end <= end
            ]
            lines = [
                (
                    "Talk.segments",
                    "source words that end in this step",
                    " ".join(word.text for word in words),
                ),
                *encoder_lines(
                    record, received, begin=begin, samples=chunk.samples.numel(), waiting=waiting
                ),
                *decoder_lines(
                    backbone, record, before=before, state=state, m=system.latency_multiplier
                ),
                ("Action.text", "what TextStream adds to the talk", repr(action.text)),
                ("Emission.delay", "seconds of source received", f"{end:.3f}"),
            ]
            return number, lines
    raise ZooError(
        f"Talk {talk.name!r} has no step {step}."
        if step is not None
        else f"Fewer than two steps of talk {talk.name!r} emit text."
    )


def encoder_lines(
    record: StepRecord, received: int, *, begin: float, samples: int, waiting: int
) -> list[Line]:
    """From samples to embeddings."""
    end = received / SAMPLE_RATE
    return [
        ("SpeechChunk.samples", f"{begin:.2f} to {end:.2f} s of the talk", f"{samples}"),
        ("Session.audio", f"kept from before: {waiting}", f"{waiting + samples}"),
        ("FeatureExtractor", "batch, channels, frames of 20 ms", shape(record, "convolutions")),
        ("StreamingEncoder", "batch, frames, hidden", shape(record, "encoder")),
        ("Adapter", "batch, embeddings of 80 ms, decoder width", shape(record, "adapter")),
    ]


def decoder_lines(
    backbone: InfiniSST, record: StepRecord, *, before: tuple[int, int], state: Any, m: int
) -> list[Line]:
    """From prompt positions to token ids."""
    hypothesis = record.hypothesis
    assert hypothesis is not None
    pieces = backbone.tokenizer.convert_ids_to_tokens(hypothesis.token_ids.tolist())
    return [
        (
            "DialoguePrompt.turn",
            "ids of the user's turn: speech and its marks",
            str(len(backbone.prompt.turn(m))),
        ),
        ("WindowState.cache", "decoder positions kept before the turn", str(before[0])),
        ("position", "of the turn's first token in the stream", str(before[1])),
        ("Hypothesis.token_ids", " ".join(pieces), str(hypothesis.token_ids.tolist())),
        (
            "Hypothesis.word_starts",
            "",
            "".join("01"[start] for start in hypothesis.word_starts.tolist()),
        ),
        ("Decision.write", "turn_taking writes the whole turn", str(hypothesis.num_new_tokens)),
        ("WindowState.cache", "decoder positions kept after the turn", str(state.num_cached)),
        (
            "EncoderState.cache",
            "layers, keys and values, heads, frames, head size",
            str(list(state.encoder.cache.shape)),
        ),
    ]


def instance_lines(
    instance: Instance, system: StreamingSystem, talk: Talk, number: int
) -> list[Line]:
    """From the emission to the Instance and the scores of the talk."""
    target = system.target_language
    mine = [unit for unit, chunk in enumerate(instance.chunk_indices) if chunk == number]
    result = score_talks([instance], [reference_segments(talk, target)], language=target)
    chunk = instance.chunks[number]
    lines = [
        (
            "Instance.units",
            f"{len(mine)} of {len(instance.units)}",
            " ".join(instance.units[unit] for unit in mine),
        ),
        (
            "Instance.delays",
            "seconds, ideal",
            " ".join(f"{instance.delays[unit]:.3f}" for unit in mine),
        ),
        (
            "Instance.elapsed",
            "seconds, with compute",
            " ".join(f"{instance.elapsed[unit]:.3f}" for unit in mine),
        ),
        ("ChunkTime.compute", "seconds for this step", f"{chunk.compute:.4f}"),
    ]
    for segment in result.segments:
        if any(abs(segment.offset + delay - chunk.arrival) < 1e-6 for delay in segment.delays):
            delays = " ".join(f"{delay:.2f}" for delay in segment.delays)
            lines.append(
                ("TimedSegment", f"hypothesis at {segment.offset:.2f} s", segment.hypothesis)
            )
            lines.append(("", "reference", segment.reference))
            lines.append(("", "delays from the segment's start (s)", delays))
    scores = {
        name: result.scores[name].value for name in ("BLEU", "StreamLAAL", "StreamLAAL_CA", "RTF")
    }
    return lines + [
        (name, "of the whole talk", f"{value:.3f}")
        for name, value in scores.items()
        if value is not None
    ]


def shape(record: StepRecord, name: str) -> str:
    """Output shape of module ``name``, or a dash where it did not run."""
    return str(record.shapes[name]) if name in record.shapes else "–"


def main() -> None:
    """Stream and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--step",
        type=int,
        help="the step to print, from 0 (default: the second one that emits text)",
    )
    parser.add_argument("overrides", nargs="*", help="Hydra overrides of conf/evaluate.yaml")
    arguments = parser.parse_args()
    cfg = compose("evaluate", arguments.overrides)
    system: StreamingSystem = build(cfg.system)
    system.configure_model()
    system.to(machine(cfg)).eval()
    [talk] = build(cfg.data).talks(cfg.evaluation.split, limit=1)
    number, lines = follow_step(system, talk, step=arguments.step)
    [source] = sources([talk], system.target_language, chunk_samples=system.chunk_samples)
    [instance] = simulate(system, [source])
    table = Table(
        "station",
        "what",
        "value",
        title=f"{talk.name}, step {number}, m = {system.latency_multiplier}",
        box=None,
    )
    for line in [*lines, *instance_lines(instance, system, talk, number)]:
        table.add_row(*line)
    Console(width=140).print(table)


if __name__ == "__main__":
    run_script(main)
