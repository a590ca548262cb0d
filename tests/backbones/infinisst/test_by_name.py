"""Decoders as published on the hub (Llama 3.1, Qwen2.5, Qwen3), loaded by name from conf/backbone.

They are tiny and randomly initialised.
"""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, Wav2Vec2Config, Wav2Vec2ForCTC

from tests.backbones.infinisst.plain import PlainDecoder
from tests.fixtures.shapes import text_shape
from zoo.backbones.architectures.speech_llm.data import collate
from zoo.backbones.decoding.causal.branches import CausalBranches, empty_cache
from zoo.backbones.decoding.causal.decoder import build_decoder
from zoo.backbones.decoding.continuation import Answer
from zoo.backbones.encoders.wav2vec2.encoder import EncoderState
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.backbones.infinisst.window import WindowConfig, WindowState, append_turn, slide
from zoo.backbones.text.tokenizer import SPECIAL_TOKENS, train_tokenizer
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.types import Instance
from zoo.config import build, compose
from zoo.training.job import needs_tokenizer
from zoo.training.precision import widen

SMALL = text_shape(vocab_size=320, bos_token_id=1, eos_token_id=2)
LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
ROPE = {  # in the words of the hub's config.json
    "llama": {"rope_theta": 500_000.0, "rope_scaling": {"rope_type": "llama3", **LLAMA3}},
    "qwen2": {"rope_theta": 1_000_000.0},
    "qwen3": {"rope_theta": 1_000_000.0, "rope_scaling": None},
}
KINDS = tuple(ROPE)
TEMPLATE = {"llama": "llama", "qwen2": "chatml", "qwen3": "chatml"}
EXTRA = (
    *SPECIAL_TOKENS,
    "<|reserved_special_token_0|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
)
ENCODER = {"conv_channels": "[4,4,4,4,4,4,8]", "hidden": 16, "layers": 2, "heads": 2, "ff": 24}
INSTRUCTION, END = 5, 2

Hub = Callable[[str], Path]
Stream = Callable[..., dict[str, Instance]]


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Hub:
    """A folder per kind with model and tokenizer, as a name on the hub would give them."""
    folders: dict[str, Path] = {}

    def folder(kind: str) -> Path:
        if kind not in folders:
            place = folders[kind] = tmp_path_factory.mktemp(kind)
            torch.manual_seed(2)
            model = AutoModelForCausalLM.from_config(
                AutoConfig.for_model(kind, **SMALL, head_dim=HEAD[kind])
            )
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    if name.endswith("bias") or "norm" in name:
                        parameter.add_(torch.randn_like(parameter), alpha=0.3)
            model.save_pretrained(place)
            config = json.loads((place / "config.json").read_text())
            del config["rope_parameters"]
            (place / "config.json").write_text(json.dumps(config | ROPE[kind]))
            train_tokenizer([], vocabulary_size=320, special_tokens=EXTRA).save_pretrained(place)
        return folders[kind]

    return folder


HEAD = {"llama": 16, "qwen2": 4, "qwen3": 16}  # head_dim is not hidden_size / heads in every model


@pytest.fixture(scope="session")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny wav2vec 2.0 of the large kind, with a CTC head."""
    place = tmp_path_factory.mktemp("wav2vec2")
    shape = {
        "conv_dim": [4, 4, 4, 4, 4, 4, 8],
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    large = {"conv_bias": True, "feat_extract_norm": "layer", "do_stable_layer_norm": True}
    other = {"intermediate_size": 24, "num_conv_pos_embedding_groups": 2, "vocab_size": 8}
    Wav2Vec2ForCTC(Wav2Vec2Config(**shape, **large, **other)).save_pretrained(place)
    return place


def by_name(kind: str, hub: Hub, speech: Path, *given: str) -> InfiniSST:
    encoder = [f"backbone.encoder.{name}={value}" for name, value in ENCODER.items()]
    names = [f"backbone.decoder={hub(kind)}", f"backbone.encoder_weights={speech}"]
    cfg = compose(
        "evaluate",
        ["backbone=infinisst", f"backbone.template={TEMPLATE[kind]}", *names, *encoder, *given],
    )
    backbone: InfiniSST = build(cfg.backbone)
    backbone.load()
    return backbone.eval()


def frequencies(kind: str) -> Tensor:
    """(head size / 2,) radians per position; Llama 3.1 divides low frequencies by up to eight."""
    theta, half = ROPE[kind]["rope_theta"], HEAD[kind] // 2
    found = []
    for index in range(half):
        frequency = theta ** -(index / half)
        if kind == "llama":
            # in the first context
            waves = LLAMA3["original_max_position_embeddings"] * frequency / (2 * math.pi)
            smooth = min(max((waves - 1.0) / (4.0 - 1.0), 0.0), 1.0)
            frequency = frequency * smooth + frequency / 8 * (1 - smooth)
        found.append(frequency)
    return torch.tensor(found, dtype=torch.float64)


def ids(count: int, seed: int) -> list[int]:
    return torch.randint(12, 264, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


@torch.inference_mode()
@pytest.mark.parametrize("size", [1000, 13])
@pytest.mark.parametrize("kind", KINDS)
def test_the_window_equals_the_plain_computation(
    hub: Hub, speech: Path, kind: str, size: int
) -> None:
    backbone = by_name(kind, hub, speech, "backbone.dtype=float64")
    embed, plain, pending = (
        backbone.decoder.get_input_embeddings(),
        PlainDecoder(backbone.decoder, INSTRUCTION, frequencies(kind)),
        [],
    )
    encoder = EncoderState(left=torch.zeros(0), cache=torch.zeros(0))
    state = WindowState(
        encoder=encoder, cache=empty_cache(backbone.decoder), instruction=INSTRUCTION
    )
    for index in range(12):
        prompt = ids(4 + (INSTRUCTION if index == 0 else 0), seed=index)
        answer_ids = ids(index % 3 + 1, seed=100 + index)
        slide(state, WindowConfig(size=size), backbone.decoder)
        turn = CausalBranches(
            backbone.decoder, [state], [embed(torch.tensor(state.pending + prompt))]
        )
        plain.slide(size)
        for token in pending + prompt:
            expected = plain.feed(embed(torch.tensor(token)))
        for token in answer_ids:
            # norms and angles are float32
            torch.testing.assert_close(turn.log_probs[0], expected, rtol=0, atol=2e-6)
            expected = plain.feed(embed(torch.tensor(token)))
            turn.step(torch.tensor([token]))
        torch.testing.assert_close(turn.log_probs[0], expected, rtol=0, atol=2e-6)
        append_turn(state, turn.prefilled(0), Answer(answer_ids, True, turn.generated(0)), end=END)
        pending = [END]
    assert (state.dropped > 0) == (size < 1000)


@pytest.mark.parametrize("kind", KINDS)
def test_they_stream_in_bfloat16_and_come_back_from_a_checkpoint(
    hub: Hub, speech: Path, stream: Stream, noise: Callable[..., Tensor], tmp_path: Path, kind: str
) -> None:
    limits = (
        "backbone.window.size=60",
        "backbone.search.tokens_per_chunk=4",
        "backbone.search.beams=2",
    )
    backbone = by_name(kind, hub, speech, *limits)
    assert {parameter.dtype for parameter in backbone.parameters()} == {torch.bfloat16}
    talks = {"a": noise(7.0), "b": noise(4.0, seed=1)}
    with torch.inference_mode():
        instances = stream(backbone, talks, multiplier=2)
    assert all(instance.text for instance in instances.values())
    backbone.save(tmp_path)
    again = by_name(kind, hub, speech, *limits, f"backbone.checkpoint={tmp_path}")
    assert stream(again, talks, multiplier=2)["a"].text == instances["a"].text


@pytest.mark.parametrize("kind", ["gpt2", "phi3", "glm", "gemma2"])
def test_networks_of_another_style_are_refused(kind: str) -> None:
    """Decoders that are not supported.

    No rotary positions; one matrix for queries, keys and values; half a head rotated; soft-capped
    scores.
    """
    fields = {name: value for name, value in SMALL.items() if kind != "gpt2"} | {"model_type": kind}
    fields |= (
        {"n_embd": 16, "n_head": 2, "n_layer": 1}
        if kind == "gpt2"
        else {"head_dim": 8, "pad_token_id": None}
    )
    with pytest.raises(
        ZooError, match=f"A {kind} does not fit as decoder; it must be a Llama-style"
    ):
        build_decoder(fields, vocabulary=320, embedding_std=None, dtype=torch.float32)


def test_the_paper_s_model_is_the_default() -> None:
    backbone: InfiniSST = build(compose("evaluate", ["backbone=infinisst"]).backbone)
    shape = backbone.encoder_config
    assert (shape.hidden, shape.layers, shape.heads, shape.ff, shape.window, shape.conv_bias) == (
        *(1024, 24, 16, 4096, 10),
        True,
    )
    search = backbone.search
    assert (
        search.beams,
        search.no_repeat_ngram,
        search.repetition_penalty,
        search.tokens_per_chunk,
    ) == (4, 5, 1.2, 10)
    assert (backbone.window.size, backbone.window.unit, backbone.dtype) == (
        1000,
        "tokens",
        torch.bfloat16,
    )
    assert (
        backbone.tokenizer_source == backbone.decoder_source == "meta-llama/Llama-3.1-8B-Instruct"
    )


def test_the_released_convention_starts_from_a_published_decoder(
    hub: Hub, speech: Path, stream: Stream, noise: Callable[..., Tensor], tmp_path: Path
) -> None:
    """Its tokens are added, the embeddings are extended, and the export has both."""
    released = ("backbone.template=released", "backbone.latency_tokens=2")
    limits = ("backbone.search.tokens_per_chunk=4", "backbone.search.beams=2")
    published = len(by_name("llama", hub, speech).tokenizer)
    backbone = by_name("llama", hub, speech, *released, *limits)
    added = ["<sp_patch>", "<latency_1>", "<latency_2>"]
    assert backbone.tokenizer.convert_ids_to_tokens(range(published, published + 3)) == added
    assert backbone.decoder.get_input_embeddings().num_embeddings >= published + len(added)

    en, de = language("en"), language("de")
    backbone.prompt.instruction(source=en, target=de, multiplier=2)
    with pytest.raises(ZooError, match=r"no latency token for m = 3; it has tokens for m = 1, 2"):
        backbone.prompt.instruction(source=en, target=de, multiplier=3)

    talks = {"a": noise(4.0)}
    expected = stream(backbone, talks, multiplier=2)["a"].text
    backbone.save(tmp_path)
    checkpoint = f"backbone.checkpoint={tmp_path}"
    again = by_name("llama", hub, speech, *released, *limits, checkpoint)
    assert len(again.tokenizer) == published + len(added)
    assert stream(again, talks, multiplier=2)["a"].text == expected


def test_a_training_uses_the_tokenizer_that_the_backbone_names() -> None:
    cfg = compose("train", ["experiment=infinisst_minitalks", "backbone=infinisst"])
    assert not needs_tokenizer(cfg, build(cfg.training))
    assert build(cfg.system).backbone.tokenizer_source == "meta-llama/Llama-3.1-8B-Instruct"


@pytest.mark.parametrize("name", ["m1", "m2", "m4", "utterances"])
def test_the_ablations_train_the_paper_s_model_from_its_own_parts(name: str) -> None:
    cfg = compose("train", [f"experiment=infinisst_ablation_{name}", "backbone=infinisst"])
    backbone: InfiniSST = build(cfg.system).backbone
    assert backbone.encoder_weights == "facebook/wav2vec2-large-960h-lv60-self"
    assert backbone.encoder_config.hidden == 1024


def test_a_frozen_encoder_in_bfloat16_feeds_trained_parts_in_float32(
    hub: Hub, speech: Path, stream: Stream, noise: Callable[..., Tensor]
) -> None:
    limits = ("backbone.search.tokens_per_chunk=4", "backbone.search.beams=2")
    backbone = by_name("llama", hub, speech, *limits)
    backbone.trainable(["adapter", "decoder"])
    widen(parameter for parameter in backbone.parameters() if parameter.requires_grad)
    dtypes = [backbone.part_dtype(name) for name in ("encoder", "adapter", "decoder")]
    assert dtypes == [torch.bfloat16, torch.float32, torch.float32]

    en, de = language("en"), language("de")
    dialogue = backbone.prompt.trajectory(
        ["ab", "c"], chunks=[1, 1], source=en, target=de, multiplier=1
    )
    backbone(collate([noise(1.92)], [dialogue], multiplier=1, padding=0)).loss.backward()
    assert all(
        parameter.grad is not None and parameter.grad.isfinite().all()
        for parameter in backbone.adapter.parameters()
    )
    assert stream(backbone, {"a": noise(3.0)})["a"].text
