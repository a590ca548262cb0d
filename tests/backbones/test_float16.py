"""Named models in half precision, as on a GPU: two streams from audio to aligned text."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.fixtures.streams import new_session, white_noise
from zoo.base.types import Capability, Request
from zoo.config import build, compose

LANGUAGES = {"whisper": ("de", "en")}


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("whisper", torch.float16),
        ("seamless_m4t", torch.float16),
        ("seamless_m4t_v2", torch.float16),
        ("seamless_m4t_speech", torch.float16),
        ("speech_to_text", torch.float16),
        ("canary", torch.bfloat16),
    ],
)
def test_hypotheses_in_half_precision(
    kind: str, dtype: torch.dtype, folders: Callable[..., Path]
) -> None:
    given = ["system=streamatt", f"backbone={kind}", f"backbone.name={folders(kind)}"]
    cfg = compose("evaluate", [*given, "device=cuda", "backbone.max_tokens=8"])
    backbone = build(cfg.backbone)
    backbone.load()
    assert {parameter.dtype for parameter in backbone.parameters()} == {dtype}
    source, target = LANGUAGES.get(kind, ("en", "de"))
    sessions = [
        new_session(backbone, white_noise(length, scale=0.1), source=source, target=target)
        for length in (32_000, 21_000)
    ]
    needs = frozenset({Capability.ALIGNMENT}) | (backbone.exposes & {Capability.SPEECH})
    for hypothesis in backbone.decode(sessions, [Request()] * 2, needs):
        assert hypothesis.num_new_tokens > 0
        assert bool(hypothesis.require_alignment().isfinite().all())
        assert hypothesis.require_alignment().dtype == torch.float32
