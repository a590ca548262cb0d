"""The audio encoder of Qwen2.5-Omni on several recordings at once."""

import pytest
import torch
from torch import Tensor
from transformers import Qwen2_5OmniAudioEncoderConfig
from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import Qwen2_5OmniAudioEncoder

from tests.fixtures.thinker_audio import check_alone, check_blocks, states_of_middle_layer
from zoo.backbones.qwen2_5_omni.encoder import encode, project

LENGTHS = (4, 64, 40, 100, 240)  # of blocks of 40: part of one, whole ones, both


@pytest.fixture(scope="module")
def tower() -> Qwen2_5OmniAudioEncoder:
    torch.manual_seed(0)
    shape = {
        "d_model": 16,
        "encoder_layers": 3,
        "encoder_attention_heads": 2,
        "encoder_ffn_dim": 24,
    }
    config = Qwen2_5OmniAudioEncoderConfig(
        **shape, num_mel_bins=8, n_window=20, output_dim=12, initializer_range=0.3
    )
    return Qwen2_5OmniAudioEncoder(config).double().eval()


@pytest.fixture(scope="module")
def features() -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(length, 8, generator=generator, dtype=torch.float64) for length in LENGTHS]


def test_it_is_the_class_of_transformers(
    tower: Qwen2_5OmniAudioEncoder, features: list[Tensor]
) -> None:
    states, _ = encode(tower, features)
    expected = tower(torch.cat(features).T, feature_lens=torch.tensor(LENGTHS)).last_hidden_state
    assert [len(hidden) for hidden in states] == [length // 4 for length in LENGTHS]
    torch.testing.assert_close(project(tower, torch.cat(states)), expected, rtol=0, atol=1e-12)


def test_each_recording_is_as_if_it_were_alone(
    tower: Qwen2_5OmniAudioEncoder, features: list[Tensor]
) -> None:
    check_alone(encode, tower, features)


def test_blocks_see_nothing_of_one_another(
    tower: Qwen2_5OmniAudioEncoder, features: list[Tensor]
) -> None:
    check_blocks(encode, tower, features[-1], 40)


def test_the_middle_layer_is_the_middle_one(
    tower: Qwen2_5OmniAudioEncoder, features: list[Tensor]
) -> None:
    middle, seen = states_of_middle_layer(encode, tower, features)
    pairs = torch.stack([seen[0::2], seen[1::2]]).mean(dim=0)
    assert torch.equal(middle, pairs)
