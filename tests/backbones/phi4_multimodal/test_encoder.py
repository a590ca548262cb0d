"""The tower against the class's own forward, in float64."""

import pytest
import torch
from transformers import Phi4MultimodalAudioConfig
from transformers.models.phi4_multimodal.modeling_phi4_multimodal import Phi4MultimodalAudioModel

from tests.fixtures.shapes import phi4_audio_shape
from zoo.backbones.phi4_multimodal.encoder import encode, encode_equal


@pytest.fixture(scope="module")
def encoder() -> Phi4MultimodalAudioModel:
    torch.manual_seed(0)
    config = Phi4MultimodalAudioConfig(**phi4_audio_shape(initializer_range=0.2))
    model = Phi4MultimodalAudioModel(config).double().eval()
    with torch.no_grad():
        model.encoder_embedding.global_mean.normal_()
        model.encoder_embedding.global_invstd.uniform_(0.5, 1.5)
    return model


@pytest.mark.parametrize(
    "frames", [1, 62, 4000, 4001, 8300]
)  # 8 frames a position; the class cuts up 501 and more
@torch.no_grad()
def test_equals_the_class(encoder: Phi4MultimodalAudioModel, frames: int) -> None:
    features = torch.randn(2, frames, 80, dtype=torch.float64)
    last, middle = encode_equal(encoder, features)
    assert last.shape == middle.shape == (2, -(-frames // 8), 16)
    # the class fails on two of more than 40 s
    alone = torch.cat([encoder(row[None], None) for row in features])
    torch.testing.assert_close(last, alone, rtol=1e-9, atol=1e-9)


@torch.no_grad()
def test_the_middle_layer_is_what_the_class_has_there(encoder: Phi4MultimodalAudioModel) -> None:
    features, seen = torch.randn(1, 62, 80, dtype=torch.float64), []
    hook = encoder.encoders[1].register_forward_hook(
        lambda layer, given, output: seen.append(output)
    )
    encoder(features, None)
    hook.remove()
    torch.testing.assert_close(encode_equal(encoder, features)[1], seen[0], rtol=1e-9, atol=1e-9)


@torch.no_grad()
def test_unequal_lengths_equal_each_alone(encoder: Phi4MultimodalAudioModel) -> None:
    features = [torch.randn(frames, 80, dtype=torch.float64) for frames in (62, 30, 62, 7)]
    last, middle = encode(encoder, features)
    for index, alone in enumerate(features):
        [top], [inner] = encode(encoder, [alone])
        torch.testing.assert_close(last[index], top, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(middle[index], inner, rtol=1e-9, atol=1e-9)


def test_checkpointing_changes_no_gradient(encoder: Phi4MultimodalAudioModel) -> None:
    features = torch.randn(1, 62, 80, dtype=torch.float64)
    gradients = []
    for checkpointing in (False, True):
        encoder.train().zero_grad()
        encoder.gradient_checkpointing = checkpointing
        last, middle = encode_equal(encoder, features)
        (last.square().sum() + middle.sum()).backward()
        gradients.append([p.grad.clone() for p in encoder.parameters() if p.grad is not None])
    encoder.eval().gradient_checkpointing = False
    assert len(gradients[0]) > 30
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-9, atol=1e-9)
