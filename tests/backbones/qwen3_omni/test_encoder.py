"""The audio encoder of Qwen3-Omni on several recordings at once."""

import pytest
import torch
from torch import Tensor
from transformers.models.qwen3_omni_moe.configuration_qwen3_omni_moe import (
    Qwen3OmniMoeAudioEncoderConfig,
)
from transformers.models.qwen3_omni_moe.modeling_qwen3_omni_moe import Qwen3OmniMoeAudioEncoder

from tests.fixtures.thinker_audio import check_alone, check_blocks, states_of_middle_layer
from zoo.backbones.architectures.thinker.chunks import num_embeddings
from zoo.backbones.qwen3_omni.encoder import encode, project

LENGTHS = (3, 57, 100, 240, 512)  # of blocks of 200: parts of a chunk, a chunk, several blocks
BLOCK = 200
EXACT = {"rtol": 0, "atol": 1e-12}


@pytest.fixture(scope="module")
def tower() -> Qwen3OmniMoeAudioEncoder:
    torch.manual_seed(0)
    shape = {
        "d_model": 16,
        "encoder_layers": 3,
        "encoder_attention_heads": 2,
        "encoder_ffn_dim": 24,
        "downsample_hidden_size": 4,
    }
    config = Qwen3OmniMoeAudioEncoderConfig(
        **shape, num_mel_bins=8, n_window_infer=BLOCK, output_dim=12, initializer_range=0.3
    )
    network = Qwen3OmniMoeAudioEncoder(config).double().eval().requires_grad_(False)
    for name, parameter in network.named_parameters():
        if name.endswith("bias"):  # with biases of 0, convolutions do not change padding
            parameter.normal_(std=0.3)
    return network


@pytest.fixture(scope="module")
def features() -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(length, 8, generator=generator, dtype=torch.float64) for length in LENGTHS]


def transformers_output(tower: Qwen3OmniMoeAudioEncoder, features: list[Tensor]) -> Tensor:
    lengths = torch.tensor([len(frames) for frames in features])
    output: Tensor = tower(torch.cat(features).T, feature_lens=lengths).last_hidden_state
    return output


def test_it_is_the_class_of_transformers(
    tower: Qwen3OmniMoeAudioEncoder, features: list[Tensor]
) -> None:
    states, _ = encode(tower, features)
    assert [len(hidden) for hidden in states] == [num_embeddings(length) for length in LENGTHS]
    expected = transformers_output(tower, features)
    torch.testing.assert_close(project(tower, torch.cat(states)), expected, **EXACT)


def test_a_recording_of_a_second_is_as_transformers_encodes_it_alone(
    tower: Qwen3OmniMoeAudioEncoder, features: list[Tensor]
) -> None:
    for frames in features[2:]:
        [states], _ = encode(tower, [frames])
        torch.testing.assert_close(
            project(tower, states), transformers_output(tower, [frames]), **EXACT
        )


def test_of_a_shorter_one_the_padding_changes_an_embedding_in_transformers(
    tower: Qwen3OmniMoeAudioEncoder, features: list[Tensor]
) -> None:
    """Here it is always padded, so the rest of the batch does not matter."""
    short, whole = features[1], features[2]
    alone = transformers_output(tower, [short])
    together = transformers_output(tower, [short, whole])[: len(alone)]
    assert float((alone - together).abs().max()) > 1e-3
    [states], _ = encode(tower, [short])
    torch.testing.assert_close(project(tower, states), together, **EXACT)


def test_each_recording_is_as_if_it_were_alone(
    tower: Qwen3OmniMoeAudioEncoder, features: list[Tensor]
) -> None:
    check_alone(encode, tower, features)


def test_blocks_see_nothing_of_one_another(
    tower: Qwen3OmniMoeAudioEncoder, features: list[Tensor]
) -> None:
    check_blocks(encode, tower, features[-1], BLOCK)


def test_the_middle_layer_is_the_middle_one(
    tower: Qwen3OmniMoeAudioEncoder, features: list[Tensor]
) -> None:
    middle, seen = states_of_middle_layer(encode, tower, features)
    assert torch.equal(middle, seen)
