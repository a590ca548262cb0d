"""A tiny file in the layout of the authors' checkpoints: converted, it computes the same outputs.

Their network is written out below from its tensors, without any module of ours or of Transformers.
"""

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from huggingface_hub import HfApi
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoTokenizer, LlamaConfig

from tests.fixtures.infinisst_layout import (
    CHANNELS,
    CONVOLUTIONS,
    FF,
    HEADS,
    HIDDEN,
    LAYERS,
    LLM_FF,
    LLM_HEADS,
    LLM_LAYERS,
    LLM_SHARED,
    MOST,
    SPEECH,
    W2V,
    WIDTH,
    Weights,
    released_weights,
)
from zoo.backbones.architectures.speech_llm.data import collate
from zoo.backbones.architectures.speech_llm.released import convert
from zoo.backbones.encoders.wav2vec2.encoder import EncoderConfig
from zoo.backbones.infinisst.convert import main
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.backbones.infinisst.window import WindowConfig
from zoo.base.errors import ZooError
from zoo.base.languages import language

WINDOW = 48  # frames before each
CHUNK = 15_360
SYSTEM = (
    "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n"
    "Cutting Knowledge Date: December 2023\n"
    "Today Date: 26 Jul 2024\n\n"
    "Translate the following speech from English to German with latency <latency_{}>.<|eot_id|>"
)


class Network:
    """The released network in double precision, one stream; ``angles``: type of rotary angles."""

    def __init__(self, weights: Weights, angles: torch.dtype) -> None:
        self.weights = {name: tensor.double() for name, tensor in weights.items()}
        self.angles = angles
        self.samples_so_far = torch.zeros(399, dtype=torch.float64)
        self.frames = 0
        self.cache: list[tuple[Tensor, Tensor]] = [
            (torch.zeros(HEADS, 0, HIDDEN // HEADS).double(),) * 2
        ] * LAYERS

    def linear(self, name: str, x: Tensor) -> Tensor:
        return x @ self.weights[f"{name}.weight"].T + self.weights.get(f"{name}.bias", 0.0)

    def norm(self, name: str, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        scaled = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def convolved(self, name: str, x: Tensor, stride: int) -> Tensor:
        """(time, channels): convolution, norm over channels, GELU."""
        weight, bias = self.weights[f"{name}.0.weight"], self.weights.get(f"{name}.0.bias")
        return F.gelu(self.norm(f"{name}.2.1", F.conv1d(x.T[None], weight, bias, stride)[0].T))

    def speech(self, samples: Tensor, block: int) -> Tensor:
        """Embeddings of what is new in the stream, (12 per chunk, width); block: in frames."""
        self.samples_so_far = torch.cat([self.samples_so_far, samples.double()])
        x = self.samples_so_far[:, None]
        for layer, (_, stride) in enumerate(CONVOLUTIONS):
            x = self.convolved(f"{W2V}feature_extractor.conv_layers.{layer}", x, stride)
        x = self.linear(f"{W2V}post_extract_proj", self.norm(f"{W2V}layer_norm", x[self.frames :]))
        for layer in range(LAYERS):
            name = f"{W2V}encoder.layers.{layer}."
            x = x + self.attended(layer, self.norm(f"{name}self_attn_layer_norm", x), block)
            wide = F.gelu(self.linear(f"{name}fc1", self.norm(f"{name}final_layer_norm", x)))
            x = x + self.linear(f"{name}fc2", wide)
        self.frames += len(x)
        x = self.norm(f"{W2V}encoder.layer_norm", x)
        for layer in range(2):
            x = self.convolved(f"{SPEECH}length_shrink.conv_layers.{layer}", x, 2)
        return self.linear(f"{SPEECH}proj", x)

    def attended(self, layer: int, x: Tensor, block: int) -> Tensor:
        name = f"{W2V}encoder.layers.{layer}.self_attn."
        query, key, value = (
            self.linear(f"{name}{part}_proj", x).view(len(x), HEADS, -1).transpose(0, 1)
            for part in "qkv"
        )
        past = [kept[:, max(0, kept.shape[1] - WINDOW) :] for kept in self.cache[layer]]
        key, value = torch.cat([past[0], key], dim=1), torch.cat([past[1], value], dim=1)
        self.cache[layer] = (key, value)
        frequencies = self.weights[f"{name}rotary_emb.freqs"].to(self.angles)
        angles = torch.arange(key.shape[1]).to(self.angles)[:, None] * frequencies
        turn = torch.complex(angles.cos().double(), angles.sin().double())
        keys = self.frames - past[0].shape[1] + torch.arange(key.shape[1])
        queries = keys[-len(x) :, None]
        visible = (keys >= queries - WINDOW) & (keys < (queries // block + 1) * block)
        scores = paired(query, turn[-len(x) :]) @ paired(key, turn).mT / (HIDDEN // HEADS) ** 0.5
        weights = scores.masked_fill(~visible, -torch.inf).softmax(-1)
        return self.linear(f"{name}out_proj", (weights @ value).transpose(0, 1).flatten(1))

    def logits(self, x: Tensor) -> Tensor:
        """Llama over (positions, width) embeddings."""
        for layer in range(LLM_LAYERS):
            name = f"model.layers.{layer}."
            x = x + self.llama_attention(f"{name}self_attn.", self.rms(f"{name}input_layernorm", x))
            normed = self.rms(f"{name}post_attention_layernorm", x)
            gate = F.silu(self.linear(f"{name}mlp.gate_proj", normed))
            x = x + self.linear(
                f"{name}mlp.down_proj", gate * self.linear(f"{name}mlp.up_proj", normed)
            )
        return self.linear("lm_head", self.rms("model.norm", x))

    def rms(self, name: str, x: Tensor) -> Tensor:
        single = x.float()  # in single precision, whatever the type of the rest
        scaled = single * (single.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
        return scaled.double() * self.weights[f"{name}.weight"]

    def llama_attention(self, name: str, x: Tensor) -> Tensor:
        size = WIDTH // LLM_HEADS
        query, key, value = (
            self.linear(f"{name}{part}_proj", x).view(len(x), -1, size).transpose(0, 1)
            for part in "qkv"
        )
        key, value = (
            shared.repeat_interleave(LLM_HEADS // LLM_SHARED, dim=0) for shared in (key, value)
        )
        frequencies = 1.0 / 10_000 ** (torch.arange(0, size, 2).float() / size)
        angles = torch.arange(len(x)).double()[:, None] * frequencies.double()
        turn = torch.polar(torch.ones_like(angles), angles)
        query, key = (
            paired(part.unflatten(-1, (2, -1)).mT.flatten(-2), turn)
            .unflatten(-1, (-1, 2))
            .mT.flatten(-2)
            for part in (query, key)
        )
        scores = query @ key.mT / size**0.5
        future = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
        heads = scores.masked_fill(future, -torch.inf).softmax(-1) @ value
        return self.linear(f"{name}o_proj", heads.transpose(0, 1).flatten(1))


def paired(x: Tensor, turn: Tensor) -> Tensor:
    """Turn neighbouring values of (heads, positions, head size)."""
    return torch.view_as_real(
        torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * turn
    ).flatten(-2)


@pytest.fixture(scope="module")
def llm(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The base model's folder: a tokenizer and a config, no weights."""
    folder = tmp_path_factory.mktemp("llm") / "base"
    shutil.copytree(tokenizer_folder, folder)
    LlamaConfig(
        # more than the tokenizer has, as in some models: the released code cuts the rest off
        vocab_size=300,
        hidden_size=WIDTH,
        intermediate_size=LLM_FF,
        num_hidden_layers=LLM_LAYERS,
        num_attention_heads=LLM_HEADS,
        num_key_value_heads=LLM_SHARED,
        rms_norm_eps=1e-6,
    ).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def weights() -> Weights:
    return released_weights(264 + 3 + MOST)


@pytest.fixture(scope="module")
def file(weights: Weights, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("released") / "pytorch_model.bin"
    torch.save(weights, path)
    return path


@pytest.fixture(scope="module")
def converted(file: Path, llm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("converted")
    encoder = convert(file, folder, llm=str(llm))
    assert encoder == EncoderConfig(
        conv_channels=list(CHANNELS), hidden=HIDDEN, layers=LAYERS, heads=HEADS, ff=FF
    )
    return folder


def load(folder: Path, angles: str) -> InfiniSST:
    backbone = InfiniSST(
        encoder=EncoderConfig(
            conv_channels=CHANNELS,
            hidden=HIDDEN,
            layers=LAYERS,
            heads=HEADS,
            ff=FF,
            window=1,
            window_unit="frames",
            left_pad=399,
            rope_angles=angles,  # type: ignore[arg-type]
        ),
        decoder=str(folder),
        template="released",
        checkpoint=str(folder),
        adapter_norm=True,
        dtype="float64",
        window=WindowConfig(unit="turns"),
    )
    backbone.load()
    return backbone.eval()


TURNS = {
    1: ["", "Guten Tag", "", "meine", "Damen und", "Herren!"],
    2: ["Guten", "", "Tag, alle zusammen."],
}
# The file's frequencies are in single precision; in the released code's bfloat16 that makes no
# difference.
ANGLES = [("exact", torch.float64, 1e-5), ("bfloat16", torch.bfloat16, 1e-10)]


def dialogue(multiplier: int) -> str:
    speech = "<sp_patch>" * 12 * multiplier
    turns = (
        f"<|start_header_id|>user<|end_header_id|>\n\n{speech}<|eot_id|>"
        f"<|start_header_id|>assistant<|end_header_id|>\n\n{text}<|eot_id|>"
        for text in TURNS[multiplier]
    )
    return SYSTEM.format(multiplier) + "".join(turns)


@pytest.mark.parametrize("multiplier", [1, 2])
@pytest.mark.parametrize(("angles", "kind", "close"), ANGLES)
@torch.no_grad()
def test_logits_are_those_of_the_released_network(
    converted: Path,
    weights: Weights,
    noise: Callable[..., Tensor],
    multiplier: int,
    angles: str,
    kind: torch.dtype,
    close: float,
) -> None:
    samples, network, backbone = noise(6 * 0.96), Network(weights, kind), load(converted, angles)
    ids = torch.tensor(
        backbone.tokenizer(dialogue(multiplier), add_special_tokens=False)["input_ids"]
    )
    embeddings = network.weights["model.embed_tokens.weight"][ids]
    embeddings[ids == 264] = network.speech(samples, 48 * multiplier)
    logits = network.logits(embeddings)
    trajectory = backbone.prompt.trajectory(
        TURNS[multiplier],
        chunks=[multiplier] * len(TURNS[multiplier]),
        source=language("en"),
        target=language("de"),
        multiplier=multiplier,
    )
    assert trajectory.input_ids == ids.tolist()
    labelled = torch.tensor(trajectory.labels[1:]) != -100
    output = backbone.forward(collate([samples], [trajectory], multiplier=multiplier, padding=0))
    assert labelled.sum() == sum(len(text) + 1 for text in TURNS[multiplier])
    torch.testing.assert_close(output.logits, logits[:-1][labelled], rtol=0, atol=close)


@pytest.mark.parametrize("multiplier", [1, 2])
@pytest.mark.parametrize(("angles", "kind", "close"), ANGLES)
@torch.no_grad()
def test_a_stream_is_encoded_as_by_the_released_network(
    converted: Path,
    weights: Weights,
    noise: Callable[..., Tensor],
    multiplier: int,
    angles: str,
    kind: torch.dtype,
    close: float,
) -> None:
    network, backbone = Network(weights, kind), load(converted, angles)
    state = backbone.encoder.open()
    for block in noise(6 * 0.96).split(CHUNK * multiplier):
        expected = network.speech(block, 48 * multiplier)
        got = backbone.adapter(backbone.encoder.stream([state], [block])[0][None])[0]
        torch.testing.assert_close(got, expected, rtol=0, atol=close)


@torch.no_grad()
def test_rounded_angles_are_another_network(weights: Weights, noise: Callable[..., Tensor]) -> None:
    exact, rounded = (Network(weights, kind).speech(noise(6 * 0.96), 48) for _, kind, _ in ANGLES)
    assert (exact - rounded).abs().max() > 0.01


def test_the_tokenizer_has_the_authors_tokens(converted: Path) -> None:
    tokens = AutoTokenizer.from_pretrained(converted).convert_ids_to_tokens(
        list(range(264, 264 + 3 + MOST))
    )
    assert tokens == ["<sp_patch>", "<sp_start>", "<sp_end>", "<latency_1>", "<latency_2>"]


def test_safetensors_and_the_training_scripts_names_convert_alike(
    converted: Path, weights: Weights, llm: Path, tmp_path: Path
) -> None:
    save_file(weights, tmp_path / "a.safetensors")
    torch.save({f"model.{name}": tensor for name, tensor in weights.items()}, tmp_path / "b.bin")
    expected = load_file(converted / "model.safetensors")
    assert {str(tensor.dtype) for tensor in expected.values()} == {
        "torch.float32",
        "torch.bfloat16",
    }
    for name in ("a.safetensors", "b.bin"):
        convert(tmp_path / name, tmp_path / name[0], llm=str(llm))
        got = load_file(tmp_path / name[0] / "model.safetensors")
        assert got.keys() == expected.keys()
        assert all(torch.equal(got[key], expected[key]) for key in expected)


def test_weights_can_be_written_in_one_type(
    file: Path, weights: Weights, llm: Path, tmp_path: Path
) -> None:
    main([str(file), str(tmp_path / "half"), "--llm", str(llm), "--dtype", "bfloat16"])
    got = load_file(tmp_path / "half" / "model.safetensors")
    assert {tensor.dtype for tensor in got.values()} == {torch.bfloat16}
    assert torch.equal(got["decoder.lm_head.weight"], weights["lm_head.weight"].bfloat16())
    assert load(tmp_path / "half", "exact").decoder.lm_head.weight.dtype == torch.float64


def without(weights: Weights, *names: str) -> Weights:
    return {name: tensor for name, tensor in weights.items() if name not in names}


FREQS = f"{W2V}encoder.layers.1.self_attn.rotary_emb.freqs"
MISTAKES: dict[str, tuple[Callable[[Weights], object], str]] = {
    "list": (
        lambda weights: list(weights.values()),
        "does not hold named weights and nothing else",
    ),
    "nested": (
        lambda weights: {"state_dict": weights},
        "does not hold named weights and nothing else",
    ),
    "empty": (lambda _: {}, "does not hold named weights"),
    "another network": (
        lambda _: {"weight": torch.ones(2)},
        "no released InfiniSST: it has no tensor model.speech_en",
    ),
    "missing": (
        lambda weights: without(weights, f"{W2V}encoder.layers.1.fc2.bias", "model.norm.weight"),
        "lacks model.norm.weight, model.speech_encoder.speech_encoder.encoder.layers.1.fc2.bias.$",
    ),
    "no frequencies": (lambda weights: without(weights, FREQS), f"no tensor {FREQS}"),
    "other frequencies": (
        lambda weights: weights | {FREQS: torch.ones(4)},
        "not the frequencies of base 10000",
    ),
    "unexpected": (
        lambda weights: weights | {f"model.{letter}": torch.ones(1) for letter in "abcde"},
        "has what the network lacks: model.a, model.b, model.c and 2 more.$",
    ),
    "another shape": (
        lambda weights: weights | {"model.layers.0.mlp.up_proj.weight": torch.ones(23, WIDTH)},
        (
            r"model.layers.0.mlp.up_proj.weight in .* has shape \[23, 16\], not \[24, 16\]; "
            r"was it trained from another"
        ),
    ),
    "no latency": (
        lambda weights: weights | {"model.embed_tokens.weight": torch.ones(267, WIDTH)},
        "has 267 token embeddings and .* 264 tokens",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_file_of_another_kind_is_refused(
    weights: Weights, llm: Path, tmp_path: Path, mistake: str
) -> None:
    change, sentence = MISTAKES[mistake]
    torch.save(change(weights), tmp_path / "file.bin")
    with pytest.raises(ZooError, match=sentence):
        convert(tmp_path / "file.bin", tmp_path / "new", llm=str(llm))
    assert not (tmp_path / "new").exists()


class Hostile:
    """Runs code where it is unpickled."""

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return (exec, ("raise SystemExit('unpickled')",))


@pytest.mark.parametrize("kind", ["torch", "pickle", "text", "safetensors"])
def test_nothing_but_weights_is_unpickled(llm: Path, tmp_path: Path, kind: str) -> None:
    path = tmp_path / ("file.safetensors" if kind == "safetensors" else "file.bin")
    if kind == "torch":
        torch.save({"lm_head.weight": Hostile()}, path)
    else:
        path.write_bytes(pickle.dumps(Hostile()) if kind == "pickle" else b"<html>Not found</html>")
    with pytest.raises(ZooError, match="is no file of weights alone"):
        convert(path, tmp_path / "new", llm=str(llm))


def test_the_command_names_what_is_wrong(
    file: Path,
    llm: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no network")

    monkeypatch.setattr(HfApi, "auth_check", refuse)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    mistakes = {
        (str(tmp_path / "nowhere.bin"), str(tmp_path / "new"), str(llm)): "There is no file",
        (str(file), str(tmp_path / "full"), str(llm)): "is there already and not empty",
        (str(file), str(tmp_path / "new"), str(tmp_path)): "has no tokenizer that could be loaded",
        (
            str(file),
            str(tmp_path / "new"),
            "nobody/nothing",
        ): "base model 'nobody/nothing' is neither a folder",
    }
    for (source, folder, base), sentence in mistakes.items():
        with pytest.raises(SystemExit, match="2"):
            main([source, folder, "--llm", base])
        assert sentence in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full"]
