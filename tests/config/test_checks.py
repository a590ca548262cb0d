"""Checks of a composed configuration."""

import pytest

from zoo.base.errors import ZooError
from zoo.config import compose
from zoo.config.checks import check_config


@pytest.mark.parametrize(
    ("key", "given"),
    [
        ("backbone.dtype", ["system=streamatt", "backbone=whisper"]),
        ("backbone.transcriber.dtype", ["system=streamuni", "backbone=cascade"]),
    ],
)
def test_float16_on_a_cpu_is_refused(key: str, given: list[str]) -> None:
    compose("evaluate", [*given, "device=cpu", f"{key}=bfloat16"])
    compose("evaluate", [*given, "device=cuda", f"{key}=float16"])
    with pytest.raises(ZooError, match=rf"^{key}=float16 is several times slower than float32"):
        compose("evaluate", [*given, "device=cpu", f"{key}=float16"])


INT8 = [
    ("backbone.decoder_weights", ["system=streamatt", "backbone=whisper"]),
    ("backbone.decoder_weights", ["system=infinisst"]),
    ("backbone.transcriber.decoder_weights", ["system=streamuni", "backbone=cascade"]),
]


@pytest.mark.parametrize(("key", "given"), INT8)
def test_int8_weights_on_a_gpu_are_refused(key: str, given: list[str]) -> None:
    compose("evaluate", [*given, "device=cpu", f"{key}=int8"])
    with pytest.raises(ZooError, match=rf"^{key}=int8 is for a CPU, not for cuda; set device=cpu"):
        compose("evaluate", [*given, "device=cuda", f"{key}=int8"])


def test_int8_weights_in_a_training_are_refused() -> None:
    cfg = compose("train", ["device=cpu", "backbone.decoder_weights=int8"])
    with pytest.raises(
        ZooError, match=r"^backbone.decoder_weights=int8 is for streaming, and a tr"
    ):
        check_config(cfg, "train")


def test_other_backbones_have_no_such_key() -> None:
    with pytest.raises(ZooError, match="decoder_weights"):
        compose("evaluate", ["system=hibiki", "backbone.decoder_weights=int8"])
