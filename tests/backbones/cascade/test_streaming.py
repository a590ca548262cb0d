"""A whole stream of scripted speech."""

import torch

from tests.backbones.cascade.conftest import Make
from tests.fixtures.streams import new_system
from zoo.base.types import SpeechChunk
from zoo.policies.transcript_wait_k import TranscriptWaitK

LOUD = [1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 5, 6, 7, 8, 9, 1, 3]


def test_silence_truncates_a_transcript_without_punctuation(make: Make) -> None:
    backbone = make(max_tokens=8)
    streaming = new_system(backbone, TranscriptWaitK(k=1), chunk_seconds=0.2, loaded=True)
    wave = torch.cat([torch.full((1600,), level / 10 + 0.05) for level in LOUD])
    session = streaming.open("talk")
    starts = []
    for chunk in wave.split(streaming.chunk_samples):
        streaming.step([session], [SpeechChunk(chunk)])
        starts.append(session.audio_start)
    assert starts[-1] > 0
    assert session.backbone_state.transcribing.audio.numel()
