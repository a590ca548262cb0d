"""Training options: recomputed activations, dropped layers, adapters, and attention masks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from zoo.backbones.architectures.speech_llm.data import Batch, collate
from zoo.backbones.encoders.wav2vec2.encoder import CHUNK_SAMPLES
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.backbones.pretrained.lora import FOLDER, LoraConfig, is_adapter
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.types import Instance

Make = Callable[..., InfiniSST]
Stream = Callable[..., dict[str, Instance]]
Noise = Callable[..., Tensor]

LORA = LoraConfig(rank=2, alpha=4, dropout=0.0)
ALWAYS = 1 - 1e-9  # a probability that is 1 in float32


def batch(backbone: InfiniSST, chunks: tuple[int, ...] = (4, 2), multiplier: int = 2) -> Batch:
    """Dialogues of ``chunks`` chunks each, with two words per turn."""
    generator = torch.Generator().manual_seed(5)
    audio = [
        torch.randn(count * CHUNK_SAMPLES, dtype=torch.float64, generator=generator)
        for count in chunks
    ]
    dialogues = [
        backbone.prompt.trajectory(
            ["ab cd"] * -(-count // multiplier),
            chunks=[min(multiplier, count - first) for first in range(0, count, multiplier)],
            source=language("en"),
            target=language("de"),
            multiplier=multiplier,
        )
        for count in chunks
    ]
    return collate(audio, dialogues, multiplier=multiplier, padding=backbone.prompt.end_of_turn)


def gradients(backbone: InfiniSST, given: Batch) -> dict[str, Tensor]:
    backbone.zero_grad()
    backbone(given).loss.backward()
    return {
        name: parameter.grad
        for name, parameter in backbone.named_parameters()
        if parameter.grad is not None
    }


def calls(module: nn.Module, run: Callable[[], object]) -> list[tuple[Any, Any]]:
    """Positional and keyword arguments of each call of a module during ``run``."""
    found: list[tuple[Any, Any]] = []
    handle = module.register_forward_pre_hook(
        lambda _, args, options: found.append((args, options)), with_kwargs=True
    )
    run()
    handle.remove()
    return found


def test_recomputed_activations_change_no_gradient(make: Make) -> None:
    plain, recomputing = make(), make(gradient_checkpointing=True)
    recomputing.load_state_dict(plain.state_dict())
    plain.train()
    recomputing.train()
    given = batch(plain)
    expected = gradients(plain, given)
    layers = (
        recomputing.encoder.feature_extractor.conv_layers[0],
        recomputing.encoder.encoder.layers[0].feed_forward,
        recomputing.decoder.model.layers[0].mlp,
    )
    found: dict[str, Tensor] = {}
    counts = [0] * len(layers)
    for index, layer in enumerate(layers):
        counts[index] = len(calls(layer, lambda: found.update(gradients(recomputing, given))))
    assert counts == [2, 2, 2]
    assert found.keys() == expected.keys() == dict(plain.named_parameters()).keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, msg=name)


def test_a_dropped_layer_passes_its_input_on_and_has_gradients_of_zero(make: Make) -> None:
    backbone = make(layer_drop=0.5).train()
    encoder = backbone.encoder.encoder
    samples = batch(backbone).audio
    torch.manual_seed(1)
    kept = [bool(torch.rand(()) >= 0.5) for _ in encoder.layers]
    assert sorted(kept) == [False, True]
    dropped = encoder.layers[kept.index(False)]
    torch.manual_seed(1)
    found = backbone.encode_training(samples, 1).hidden
    found.square().sum().backward()
    assert all(not parameter.grad.any() for parameter in dropped.parameters())  # type: ignore[union-attr]
    layer = encoder.layers[kept.index(True)]
    assert all(parameter.grad.any() for parameter in layer.attention.v_proj.parameters())

    dropped.forward = lambda x, *_: x  # type: ignore[method-assign]
    torch.testing.assert_close(backbone.eval().encode_training(samples, 1).hidden, found)


@pytest.mark.parametrize("trained", [True, False])
def test_layers_are_dropped_only_where_the_encoder_is_trained(make: Make, trained: bool) -> None:
    backbone, plain = make(layer_drop=ALWAYS), make()
    samples = batch(plain).audio
    expected = plain.encode_training(samples, 1).hidden
    torch.testing.assert_close(backbone.encode_training(samples, 1).hidden, expected)
    backbone.train().trainable(["encoder", "decoder"] if trained else ["decoder"])
    found = backbone.encode_training(samples, 1).hidden
    assert torch.allclose(found, expected) is not trained


@pytest.mark.parametrize("probability", [-0.1, 1.0])
def test_layer_drop_is_a_probability_below_one(make: Make, probability: float) -> None:
    with pytest.raises(ZooError, match=r"layer_drop is a probability from 0 to below 1"):
        make(layer_drop=probability)


@pytest.fixture(scope="module")
def adapted(make: Make) -> tuple[InfiniSST, dict[str, Tensor]]:
    """A backbone whose adapter was trained, and its weights before."""
    backbone = make(lora=LORA, end_scale=0.1).train()
    backbone.trainable(["lora"])
    before = {name: tensor.clone() for name, tensor in backbone.state_dict().items()}
    optimizer = torch.optim.AdamW([p for p in backbone.parameters() if p.requires_grad], lr=0.01)
    given = batch(backbone)
    for _ in range(3):
        optimizer.zero_grad()
        backbone(given).loss.backward()
        optimizer.step()
    return backbone.eval(), before


def test_only_adapter_weights_are_trained(adapted: tuple[InfiniSST, dict[str, Tensor]]) -> None:
    backbone, before = adapted
    changed = {
        name for name, tensor in backbone.state_dict().items() if not tensor.equal(before[name])
    }
    assert changed == {name for name in before if is_adapter(name)}
    assert len(changed) == 2 * 7 * 2  # two factors, seven projections, two layers
    assert all(name.startswith("decoder.model.layers.") for name in changed)
    counted = [id(p) for parameters in backbone.parts().values() for p in parameters]
    assert sorted(counted) == sorted(id(parameter) for parameter in backbone.parameters())


@pytest.mark.parametrize("save", ["merged", "adapter"])
def test_an_exported_adapter_streams_the_same_words(
    make: Make,
    stream: Stream,
    noise: Noise,
    adapted: tuple[InfiniSST, dict[str, Tensor]],
    tmp_path: Path,
    save: Any,
) -> None:
    backbone, before = adapted
    backbone.lora = LoraConfig(rank=2, alpha=4, dropout=0.0, save=save)
    backbone.save(tmp_path)
    written = load_file(tmp_path / "model.safetensors")
    assert not any(map(is_adapter, written))
    assert (tmp_path / FOLDER).is_dir() is (save == "adapter")
    name = "decoder.model.layers.0.mlp.up_proj"
    same = written[f"{name}.weight"].equal(before[f"{name}.base_layer.weight"])
    assert same is (save == "adapter")

    loaded = make(checkpoint=str(tmp_path), end_scale=1.0)
    assert not any(is_adapter(name) for name, _ in loaded.named_parameters())
    given = batch(backbone)
    torch.testing.assert_close(loaded(given).logits, backbone(given).logits)
    talks = {"talk": noise(6.0)}
    units = [stream(one, talks)["talk"].units for one in (loaded, backbone)]
    assert units[0] == units[1] != ()


def test_an_exported_adapter_is_trained_further(
    make: Make, adapted: tuple[InfiniSST, dict[str, Tensor]], tmp_path: Path
) -> None:
    backbone, _ = adapted
    backbone.lora = LoraConfig(rank=2, alpha=4, dropout=0.0, save="adapter")
    backbone.save(tmp_path)
    again = make(checkpoint=str(tmp_path), end_scale=1.0, lora=LORA)
    assert again.state_dict().keys() == backbone.state_dict().keys()
    assert all(t.equal(again.state_dict()[name]) for name, t in backbone.state_dict().items())
    with pytest.raises(ZooError, match=r"has rank 2 and alpha 4, but backbone\.lora has 3 and 4"):
        make(checkpoint=str(tmp_path), lora=LoraConfig(rank=3, alpha=4))


@pytest.mark.parametrize(("chunks", "dimensions"), [((4, 2), 2), ((4, 3), 4)])
def test_padding_is_masked_per_signal_only_within_a_block(
    make: Make, chunks: tuple[int, int], dimensions: int
) -> None:
    """Blocks have two chunks: padding of a whole block is never visible to a real frame."""
    backbone = make()
    given = batch(backbone, chunks)
    layer = backbone.encoder.encoder.layers[0]
    (((_, mask, *_), _),) = calls(layer, lambda: backbone(given))
    assert mask.dim() == dimensions

    lengths = torch.tensor([48 * count for count in chunks])
    both = backbone.encode_training(given.audio, 2, lengths).hidden
    alone = backbone.encode_training(given.audio[1:, : chunks[1] * CHUNK_SAMPLES], 2).hidden
    torch.testing.assert_close(both[1, : 48 * chunks[1]], alone[0])


def test_the_decoder_needs_no_mask_for_padding_at_the_end(make: Make) -> None:
    backbone = make()
    given = batch(backbone)
    attention = backbone.decoder.model.layers[1].self_attn
    outputs: list[Any] = []
    ((_, options),) = calls(attention, lambda: outputs.append(backbone(given)))
    assert options["attention_mask"] is None

    short = batch(backbone, (2,))
    short.audio = given.audio[1:, : 2 * CHUNK_SAMPLES]
    alone = backbone(short)
    count = len(alone.targets)
    assert alone.targets.equal(outputs[0].targets[-count:])
    torch.testing.assert_close(outputs[0].logits[-count:], alone.logits)
