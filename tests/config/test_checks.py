"""Checks of a composed configuration."""

import pytest

from zoo.config import compose
from zoo.errors import ZooError


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
