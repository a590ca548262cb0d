"""Whole streams with every compatible policy, single and batched, and a Whisper transcriber."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.backbones.cascade.conftest import Make
from tests.fixtures import tiny_checkpoints
from zoo.backbones.cascade.cascade import Cascade
from zoo.backbones.whisper import Whisper
from zoo.history.keep_all import KeepAll
from zoo.policies.base import Policy
from zoo.policies.local_agreement import LocalAgreement
from zoo.policies.read_all import ReadAll
from zoo.policies.transcript_wait_k import TranscriptWaitK
from zoo.policies.wait_k import WaitK
from zoo.streaming.simulate import Source, simulate
from zoo.systems.base import StreamingSystem
from zoo.types import Instance, SpeechChunk

LOUD = (
    [1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 5, 6, 7, 8, 9, 1, 3],
    [5, 0, 6, 7, 8, 9, 9, 2],
    [3, 3, 4, 2, 1, 7, 8, 9, 1, 2, 5],
)
POLICIES: dict[str, Callable[[], Policy]] = {
    "wait_k": lambda: WaitK(k=2, count="words"),
    "local_agreement": lambda: LocalAgreement(n=2),
    "read_all": ReadAll,
    "transcript_wait_k": lambda: TranscriptWaitK(k=1),
}


def system(backbone: Cascade, policy: Policy, chunk_seconds: float = 0.2) -> StreamingSystem:
    streaming_system = StreamingSystem(
        name="cascade",
        backbone=backbone,
        policy=policy,
        history=KeepAll(),
        source_language="en",
        target_language="de",
        chunk_seconds=chunk_seconds,
    )
    streaming_system._loaded = True  # the fixture has
    return streaming_system


def sources(waves: list[Tensor], chunk: int) -> list[Source]:
    return [Source(f"talk {place}", list(wave.split(chunk))) for place, wave in enumerate(waves)]


def units_and_delays(instances: list[Instance]) -> list[tuple[str, tuple[float, ...]]]:
    return [(one.text, one.delays) for one in sorted(instances, key=lambda one: one.talk)]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_batch_of_talks_equals_its_talks_alone(policy: str, make: Make) -> None:
    backbone = make(max_tokens=8)
    streaming = system(backbone, POLICIES[policy]())
    waves = [
        torch.cat([torch.full((1600,), level / 10 + 0.05) for level in levels]) for levels in LOUD
    ]
    alone = list(simulate(streaming, sources(waves, streaming.chunk_samples)))
    batch = list(simulate(streaming, sources(waves, streaming.chunk_samples), batch_size=2))
    assert units_and_delays(alone) == units_and_delays(batch)
    assert any(one.units for one in alone)


def test_silence_truncates_a_transcript_without_punctuation(make: Make) -> None:
    backbone = make(max_tokens=8)
    streaming = system(backbone, TranscriptWaitK(k=1))
    wave = torch.cat([torch.full((1600,), level / 10 + 0.05) for level in LOUD[0]])
    session = streaming.open("talk")
    starts = []
    for chunk in sources([wave], streaming.chunk_samples)[0].chunks:
        streaming.step([session], [SpeechChunk(chunk)])
        starts.append(session.audio_start)
    assert starts[-1] > 0
    assert session.backbone_state.transcribing.audio.numel()


def test_a_whisper_transcribes_english_for_german(make: Make, tmp_path: Path) -> None:
    tiny_checkpoints.whisper(tmp_path)
    backbone = make(
        transcriber=Whisper(name=str(tmp_path), dtype="float64", max_tokens=6), max_tokens=8
    )
    streaming = system(backbone, TranscriptWaitK(k=1), chunk_seconds=1.0)
    generator = torch.Generator().manual_seed(0)
    waves = [torch.randn(length, generator=generator) for length in (40_000, 24_000)]
    alone = list(simulate(streaming, sources(waves, streaming.chunk_samples)))
    batch = list(simulate(streaming, sources(waves, streaming.chunk_samples), batch_size=2))
    assert units_and_delays(alone) == units_and_delays(batch)
    assert any(one.units for one in alone)
