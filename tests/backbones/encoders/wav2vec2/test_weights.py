"""Encoder weights from wav2vec 2.0 of Transformers and from another InfiniSST; errors."""

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import (
    HubertConfig,
    HubertModel,
    Wav2Vec2Config,
    Wav2Vec2ForCTC,
    Wav2Vec2ForPreTraining,
    Wav2Vec2Model,
)

from tests.fixtures.shapes import ENCODER
from zoo.backbones.base import is_restored
from zoo.backbones.encoders.wav2vec2.encoder import StreamingEncoder
from zoo.backbones.encoders.wav2vec2.weights import load_encoder
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.backbones.pretrained.share import share
from zoo.base.errors import ZooError

LARGE = {  # the layer-norm variant of the large models, with ENCODER's numbers
    "conv_dim": list(ENCODER.conv_channels),
    "conv_bias": True,
    "feat_extract_norm": "layer",
    "do_stable_layer_norm": True,
    "hidden_size": ENCODER.hidden,
    "num_hidden_layers": ENCODER.layers,
    "num_attention_heads": ENCODER.heads,
    "intermediate_size": ENCODER.ff,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
    "vocab_size": 8,
    "codevector_dim": 8,
    "proj_codevector_dim": 8,
    "num_codevectors_per_group": 4,
}

Make = Callable[..., InfiniSST]


def saved(folder: Path, kind: type, **changed: object) -> Path:
    """A model with random weights, saved as on the hub."""
    torch.manual_seed(3)
    config = HubertConfig if kind is HubertModel else Wav2Vec2Config
    model = kind(config(**(LARGE | changed)))
    with torch.no_grad():
        for parameter in model.parameters():
            # zeros and ones of fresh norms and biases would hide a mix-up
            parameter.normal_(std=0.3)
    model.save_pretrained(folder)
    return folder


def without_positions(model: Wav2Vec2Model, samples: Tensor) -> tuple[Tensor, Tensor]:
    """Hugging Face's own computation, without its positional convolution: last and middle layer."""

    class Nothing(nn.Module):
        def forward(self, hidden: Tensor) -> Tensor:
            return torch.zeros_like(hidden)

    model.encoder.pos_conv_embed = Nothing()
    output = model.eval()(samples, output_hidden_states=True)
    return output.last_hidden_state, output.hidden_states[1]


def unrotated(
    encoder: StreamingEncoder, samples: Tensor, monkeypatch: pytest.MonkeyPatch
) -> tuple[Tensor, Tensor]:
    """Ours without positions, in one block."""
    monkeypatch.setattr("zoo.backbones.encoders.wav2vec2.encoder.rotate", lambda x, cos, sin: x)
    output = encoder.eval()(samples, 2)
    return output.hidden, output.middle


@pytest.mark.parametrize("kind", [Wav2Vec2Model, Wav2Vec2ForCTC, Wav2Vec2ForPreTraining])
def test_it_computes_what_wav2vec2_computes_but_for_positions(
    tmp_path: Path, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = saved(tmp_path, kind)
    encoder = StreamingEncoder(ENCODER)
    load_encoder(encoder, str(folder))
    samples = torch.randn(1, 2 * 15_360)
    theirs = without_positions(
        Wav2Vec2Model.from_pretrained(folder), torch.nn.functional.pad(samples, (80, 0))
    )
    ours = unrotated(encoder, samples, monkeypatch)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


def test_a_file_of_older_transformers_is_read_too(tmp_path: Path) -> None:
    """``pytorch_model.bin`` with the old names of the positional convolution, as the hub has it."""
    folder = saved(tmp_path, Wav2Vec2ForCTC)
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    old = {
        name.replace("parametrizations.weight.original0", "weight_g").replace(
            "parametrizations.weight.original1", "weight_v"
        ): tensor
        for name, tensor in weights.items()
    }
    assert "wav2vec2.encoder.pos_conv_embed.conv.weight_g" in old
    torch.save(old, folder / "pytorch_model.bin")
    encoder = StreamingEncoder(ENCODER)
    load_encoder(encoder, str(folder))
    for name, tensor in encoder.state_dict().items():
        assert torch.equal(tensor, weights[f"wav2vec2.{name}"]), name


def test_the_backbone_starts_from_them_in_its_own_type(make: Make, tmp_path: Path) -> None:
    folder = saved(tmp_path, Wav2Vec2ForCTC)
    backbone = make(encoder=ENCODER, encoder_weights=str(folder))
    assert all(is_restored(parameter) for parameter in backbone.encoder.parameters())
    assert not any(is_restored(parameter) for parameter in backbone.decoder.parameters())
    weights = load_file(folder / "model.safetensors")
    for name, tensor in backbone.encoder.state_dict().items():
        assert torch.equal(tensor, weights[f"wav2vec2.{name}"].double()), name
    assert backbone.encoder.feature_projection.projection.weight.dtype == torch.float64


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {"hidden_size": 24},
            (
                r"feature_projection\.projection\.weight has shape \[24, 8\], "
                r"the encoder needs \[16, 8\]"
            ),
        ),
        ({"num_hidden_layers": 3}, r"same layers: encoder\.layers\.2\..* more"),
        ({"num_hidden_layers": 1}, r"same layers: encoder\.layers\.1\..* more"),
        ({"conv_bias": False}, r"same layers: feature_extractor\.conv_layers\.0\.conv\.bias"),
        ({"num_attention_heads": 4}, r"heads=4, but backbone\.encoder\.heads=2"),
        ({"do_stable_layer_norm": False}, "layer-norm variant"),
        ({"feat_extract_norm": "group"}, "layer-norm variant"),
        ({"conv_stride": [5, 2, 2, 2, 2, 2, 1]}, "20 ms grid"),
        ({"hidden_act": "relu"}, "GELU"),
    ],
)
def test_incompatible_options_are_refused(
    tmp_path: Path, changed: dict[str, object], sentence: str
) -> None:
    folder = saved(tmp_path, Wav2Vec2Model, **changed)
    with pytest.raises(ZooError, match=sentence):
        load_encoder(StreamingEncoder(ENCODER), str(folder))


def test_another_network_and_missing_weights_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ZooError, match="is a 'hubert'"):
        load_encoder(StreamingEncoder(ENCODER), str(saved(tmp_path / "hubert", HubertModel)))
    folder = saved(tmp_path / "holes", Wav2Vec2Model)
    weights = load_file(folder / "model.safetensors")
    del weights["encoder.layers.1.attention.k_proj.bias"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(
        ZooError,
        match=r"lacks 1 weights of a wav2vec2, such as encoder\.layers\.1\.attention\.k_proj",
    ):
        load_encoder(StreamingEncoder(ENCODER), str(folder))


@pytest.mark.parametrize("source", ["/nowhere", "nobody/no-such-model"])
def test_a_missing_model_is_an_error_of_one_sentence(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ZooError, match=f"No encoder could be loaded from '{source}'"):
        load_encoder(StreamingEncoder(ENCODER), source)


def exported(make: Make, folder: Path, **described: object) -> InfiniSST:
    """An InfiniSST checkpoint as training exports it."""
    other = make(seed=7, encoder=ENCODER)
    other.save(folder)
    encoder = {"heads": ENCODER.heads, "left_pad": ENCODER.left_pad} | described
    (folder / "config.yaml").write_text(yaml.safe_dump({"backbone": {"encoder": encoder}}))
    return other


def test_the_encoder_of_another_infinisst_is_shared(make: Make, tmp_path: Path) -> None:
    other = exported(make, tmp_path)
    wider = dataclasses.replace(ENCODER, window=5)  # the window holds no weights
    started = make(seed=1, encoder=wider, encoder_weights=str(tmp_path))
    fresh = make(seed=1, encoder=wider)
    for name, tensor in started.encoder.state_dict().items():
        assert torch.equal(tensor, other.encoder.state_dict()[name])
    for part in ("adapter", "decoder"):
        for name, tensor in getattr(started, part).state_dict().items():
            assert torch.equal(tensor, getattr(fresh, part).state_dict()[name])


def test_so_is_one_that_lies_in_yet_another_checkpoint(make: Make, tmp_path: Path) -> None:
    first = exported(make, tmp_path / "first")
    exported(make, tmp_path / "second")
    share(tmp_path / "second", "encoder", tmp_path / "first")
    started = make(seed=1, encoder=ENCODER, encoder_weights=str(tmp_path / "second"))
    for name, tensor in started.encoder.state_dict().items():
        assert torch.equal(tensor, first.encoder.state_dict()[name])


def test_an_infinisst_on_another_grid_is_refused(make: Make, tmp_path: Path) -> None:
    exported(make, tmp_path, left_pad=399)
    with pytest.raises(ZooError, match=r"left_pad=399, but backbone\.encoder\.left_pad=80"):
        make(encoder=ENCODER, encoder_weights=str(tmp_path))
    exported(make, tmp_path)
    with pytest.raises(ZooError, match=r"same layers: encoder\.layers\.2\."):
        make(encoder=dataclasses.replace(ENCODER, layers=3), encoder_weights=str(tmp_path))
    (tmp_path / "config.yaml").unlink()
    with pytest.raises(ZooError, match="missing or damaged"):
        make(encoder=ENCODER, encoder_weights=str(tmp_path))


def test_a_checkpoint_comes_before_them(make: Make, tmp_path: Path) -> None:
    backbone = make(seed=8, encoder=ENCODER)
    backbone.save(tmp_path)
    loaded = make(
        encoder=ENCODER, checkpoint=str(tmp_path), encoder_weights="/nowhere", end_scale=1.0
    )
    for name, tensor in loaded.state_dict().items():
        assert torch.equal(tensor, backbone.state_dict()[name])


def test_damaged_files_are_refused(make: Make, tmp_path: Path) -> None:
    exported(make, tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(ZooError, match="damaged"):
        make(encoder=ENCODER, encoder_weights=str(tmp_path))
    shutil.rmtree(tmp_path)
    folder = saved(tmp_path, Wav2Vec2Model)
    (folder / "config.json").write_text("{")
    with pytest.raises(ZooError, match="cannot be read as JSON"):
        make(encoder=ENCODER, encoder_weights=str(folder))
