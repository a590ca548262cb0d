"""Phi-4-Multimodal's class adds its padding mask to attention scores as a number (1 or 0).

Padding is therefore attended to.

Seen in transformers 5.23. Nothing is padded here, so a batch cannot change which audio a stream
attends to or which tokens it decodes.
"""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.fixtures.streams import new_session, white_noise
from tests.fixtures.tiny_checkpoints import phi4_multimodal
from zoo.backbones.phi4_multimodal.network import audio_part
from zoo.backbones.phi4_multimodal.phi4_multimodal import Phi4Multimodal
from zoo.base.types import Capability, Request, Task
from zoo.streaming.session import Session

FRAMES, LONGEST = 126, 254  # 1.28 and 2.56 s


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Phi4Multimodal:
    folder: Path = tmp_path_factory.mktemp("phi4")
    phi4_multimodal(folder)
    loaded_backbone = Phi4Multimodal(name=str(folder), dtype="float64", max_tokens=12)
    loaded_backbone.load()
    return loaded_backbone


@pytest.fixture(scope="module")
def features() -> Tensor:
    """(frames, bins) of the shorter of two."""
    return torch.randn(FRAMES, 80, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@torch.no_grad()
def in_the_class(backbone: Phi4Multimodal, features: Tensor, padding: Tensor) -> Tensor:
    """The class's output for one stream that is padded and masked."""
    padded = torch.cat([features, padding.expand(LONGEST - FRAMES, 80)])
    mask = torch.arange(LONGEST) < FRAMES
    return audio_part(backbone.model).encoder(padded[None], mask[None])[0, : -(-FRAMES // 8)]


@torch.no_grad()
def test_the_class_of_transformers_encodes_padding(
    backbone: Phi4Multimodal, features: Tensor
) -> None:
    alone = audio_part(backbone.model).encoder(features[None], None)[0]
    silent, loud = (
        in_the_class(backbone, features, torch.full((1, 80), value).double())
        for value in (0.0, 20.0)
    )
    assert (silent - alone).abs().max() > 0.1
    assert (loud - silent).abs().max() > 0.1


@torch.no_grad()
def test_our_encoder_ignores_padding(backbone: Phi4Multimodal, features: Tensor) -> None:
    loud = torch.full((LONGEST, 80), 20.0, dtype=torch.float64)
    alone = audio_part(backbone.model).encoder(features[None], None)[0]
    for others in ([], [loud], [loud, features + 1, loud[:7]]):
        last, middle = backbone.encode([features, *others])
        torch.testing.assert_close(last[0], alone, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(
            middle[0], backbone.encode([features])[1][0], rtol=1e-9, atol=1e-9
        )


@pytest.mark.parametrize("task", [Task.TRANSCRIPTION, Task.TRANSLATION])
def test_our_decoder_gives_the_same_tokens_in_a_batch(backbone: Phi4Multimodal, task: Task) -> None:
    needs = frozenset({Capability.ALIGNMENT})
    lengths, request = (20_480, 30_720, 20_480, 41_000), Request(task=task)
    batch = backbone.decode(
        [session_of(backbone, n) for n in lengths], [request] * len(lengths), needs
    )
    batch_ids = [hypothesis.token_ids.tolist() for hypothesis in batch]
    assert len({tuple(ids) for ids in batch_ids}) > 1
    for n, ids, hypothesis in zip(lengths, batch_ids, batch, strict=True):
        [alone] = backbone.decode([session_of(backbone, n)], [request], needs)
        assert alone.token_ids.tolist() == ids
        if task is Task.TRANSLATION:
            assert alone.alignment is not None
            torch.testing.assert_close(alone.alignment, hypothesis.alignment)


def session_of(backbone: Phi4Multimodal, samples: int) -> Session:
    """A stream that has received noise, other noise for each length."""
    return new_session(backbone, white_noise(samples, seed=samples, scale=0.3))
