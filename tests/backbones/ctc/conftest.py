"""A tiny CTC recogniser with random weights in double precision."""

from collections.abc import Callable

import pytest
import torch

from zoo.backbones.ctc.ctc import CTC

TINY = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "position_embeddings_type": "rotary",
    "conv_depthwise_kernel_size": 5,
    "conformer_conv_dropout": 0.0,
    "final_dropout": 0.0,
    "layerdrop": 0.0,
    "mask_time_prob": 0.0,
    "initializer_range": 0.3,
}

Make = Callable[..., CTC]


@pytest.fixture(scope="session")
def make() -> Make:
    """Build and load a backbone."""

    def build(*, seed: int = 0, **options: object) -> CTC:
        torch.manual_seed(seed)
        backbone = CTC(
            **({"name": None, "config": TINY, "letters": "abcde", "dtype": "float64"} | options)
        )  # type: ignore[arg-type]
        backbone.load()
        return backbone

    return build
