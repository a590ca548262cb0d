"""Streaming with drafts and reuse equals a plain loop over the forward of Transformers' classes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.backbones.architectures.chain_of_thought.test_training import PIECES
from tests.backbones.decoding.graphs import without_host
from tests.backbones.phi4_multimodal.tiny import CONFIG
from tests.fixtures.seeds import assert_until
from tests.fixtures.shapes import moe_thinker_shape, thinker_shape
from zoo.backbones.architectures.chain_of_thought.chain_of_thought import ChainOfThought
from zoo.backbones.architectures.chain_of_thought.prompt import Template
from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.decoding.static_steps import StaticSteps
from zoo.backbones.phi4_multimodal.phi4_multimodal import Phi4Multimodal
from zoo.backbones.pretrained.lora import LoraConfig
from zoo.backbones.qwen2_5_omni.qwen2_5_omni import Qwen25Omni
from zoo.backbones.qwen3_omni.qwen3_omni import Qwen3Omni
from zoo.backbones.text.tokenizer import train_tokenizer
from zoo.base.languages import language
from zoo.base.types import Capability, Request, Task
from zoo.streaming.session import Session
from zoo.training.precision import widen

LIMIT = 6
LEAN = Template(user="<|user|>", audio="<|audio|>", instruction="To {target}.")
THINKER = thinker_shape(audio_layers=2)
EXPERTS = moe_thinker_shape(audio_layers=2)
OPTIONS: dict[str, Any] = {
    "embedding_std": 0.5,
    "dtype": "float64",
    "max_tokens": LIMIT,
    "alignment": AlignmentConfig(layer=1),
}


def phi(folder: Path, **options: Any) -> ChainOfThought:
    return Phi4Multimodal(config=CONFIG, tokenizer=str(folder), template=LEAN, **options)


def qwen(folder: Path, **options: Any) -> ChainOfThought:
    return Qwen25Omni(config=THINKER, tokenizer=str(folder), template=LEAN, **options)


def qwen3(folder: Path, **options: Any) -> ChainOfThought:
    return Qwen3Omni(config=EXPERTS, tokenizer=str(folder), template=LEAN, **options)


KINDS = [phi, qwen, qwen3]


def scores(backbone: ChainOfThought, audio: Tensor, answer_ids: list[int]) -> tuple[Tensor, Tensor]:
    """Next-token scores (vocabulary,), layer 1 attention (1 + n, frames) of the class's forward."""
    features = backbone.prepared(
        backbone.spectrogram.compute(backbone.spectrogram.open(), audio, 0)
    ).double()
    count = backbone.embeddings(len(features))
    ids = backbone.prompt.opening(count, language("de")) + answer_ids
    if isinstance(backbone, Phi4Multimodal):
        inputs = {
            "audio_input_features": features[None],
            "audio_embed_sizes": torch.tensor([count]),
        }
        text: Any = backbone.model
    else:
        seen = torch.ones(1, len(features), dtype=torch.long)
        inputs = {"input_features": features.T[None], "feature_attention_mask": seen}
        text = backbone.decoder.model
    before = text.config._attn_implementation
    text.config._attn_implementation = "eager"
    mask = torch.ones(1, len(ids), dtype=torch.long)
    output = backbone.model(
        input_ids=torch.tensor([ids]), attention_mask=mask, **inputs, output_attentions=True
    )
    text.config._attn_implementation = before
    logits = output.logits[0, -1]
    logits[backbone.prompt.audio] = -torch.inf
    speech = backbone.prompt.speech + backbone.frame_embeddings(len(audio), count)
    rows = output.attentions[1][0, :, -1 - len(answer_ids) :]
    return logits, rows[..., speech].mean(dim=0)


def plain(
    backbone: ChainOfThought, audio: Tensor, answer_ids: list[int], ends: list[int]
) -> list[int]:
    new: list[int] = []
    while (
        len(new) < LIMIT
        and (token := int(scores(backbone, audio, answer_ids + new)[0].argmax())) not in ends
    ):
        new.append(token)
    return new


def random(
    kind: Callable[..., ChainOfThought],
    folder: Path,
    seed: int = 0,
    ends: float = 4.0,
    **options: Any,
) -> ChainOfThought:
    """A loaded backbone; with ``ends`` of 4 or more, some hypotheses end before the limit."""
    special = (
        "<|pad|>",
        "<|begin_of_text|>",
        "<|user|>",
        "<|audio|>",
        "<|end|>",
        "<|assistant|>",
        "<sep>",
    )
    train_tokenizer(["good morning"], vocabulary_size=300, special_tokens=special).save_pretrained(
        folder
    )
    torch.manual_seed(seed)
    backbone = kind(folder, **{**OPTIONS, **options})
    backbone.load()
    with torch.no_grad():
        backbone.decoder.get_output_embeddings().weight[
            [backbone.prompt.end, *backbone.prompt.separator]
        ] *= ends
    return backbone


@torch.inference_mode()
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("fast", "capture"), [(True, "off"), (False, "off"), (True, "static"), (True, "auto")]
)
def test_streams_as_the_class_would(
    kind: Callable[..., ChainOfThought],
    fast: bool,
    capture: str,
    live: Callable[..., Session],
    tmp_path: Path,
) -> None:
    prefix, needs = [70, 71, 72], frozenset({Capability.ALIGNMENT})
    # The class of Qwen3-Omni encodes less than 1 s in another way, see its encoder.
    sizes = (16_640, 20_480, 30_720) if kind is qwen3 else (5_120, 10_240, 20_480)

    def answers_have_two_lengths(seed: int) -> bool:
        backbone = random(kind, tmp_path, seed=seed, draft=fast, reuse=fast, capture=capture)
        if capture == "auto":
            backbone.steps = StaticSteps("auto", capturer=without_host)
        separator, end = backbone.prompt.separator, backbone.prompt.end
        assert len(separator) == 1
        session = live(backbone, seconds=1.92, prefix=prefix)
        lengths = set()
        for samples in sizes:
            audio, frames = session.audio[:samples], samples // backbone.frame_samples
            transcript = plain(backbone, audio, [], [end, *separator])
            translation = plain(backbone, audio, [*transcript, *separator, *prefix], [end])

            request = Request(Task.TRANSCRIPTION, frames)
            first = backbone.decode([session], [request], frozenset())[0]
            assert first.token_ids.tolist() == transcript
            request = Request(Task.TRANSLATION, frames, first.token_ids)
            second = backbone.decode([session], [request], needs)[0]
            assert second.token_ids.tolist() == translation

            text = [*transcript, *separator, *prefix, *translation]
            rows = scores(backbone, audio, text)[1]
            rows = rows[len(text) - len(translation) - len(prefix) : -1]
            torch.testing.assert_close(
                second.alignment, rows.to(second.alignment), rtol=0, atol=1e-5
            )
            lengths |= {len(transcript), len(translation)}
        assert backbone.steps.capture == capture
        return len(lengths) > 1

    assert_until(answers_have_two_lengths)


@torch.inference_mode()
@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_each_stream_alone(
    kind: Callable[..., ChainOfThought], live: Callable[..., Session], tmp_path: Path
) -> None:
    """Streams of different ages and prefixes, with drafts, and both stages in one batch."""
    needs = frozenset({Capability.ALIGNMENT})
    transcript, translation = Request(task=Task.TRANSCRIPTION), Request()
    plan = [(1.28, [70, 71]), (0.64, []), (0.96, [72])]

    def answers_differ(seed: int) -> bool:
        backbone = random(kind, tmp_path, seed=seed, ends=1.0)
        together, alone = (
            [
                live(backbone, seconds=seconds, prefix=prefix, seed=place)
                for place, (seconds, prefix) in enumerate(plan)
            ]
            for _ in range(2)
        )
        answers = set()
        for asked in (
            [transcript, translation, transcript],
            [translation, transcript, translation],
        ):
            for index, answer in enumerate(backbone.decode(together, asked, needs)):
                single = backbone.decode([alone[index]], [asked[index]], needs)[0]
                assert answer.token_ids.tolist() == single.token_ids.tolist()
                if asked[index] is translation:
                    torch.testing.assert_close(
                        answer.alignment, single.alignment, rtol=0, atol=1e-5
                    )
                answers.add(tuple(answer.token_ids.tolist()))
            for session in (*together, *alone):
                session.audio = torch.cat([session.audio, session.audio.flip(0)[:5120]])
        return len(answers) > 2

    assert_until(answers_differ)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("parts", [["encoder", "projector", "lora"], ["projector"]])
def test_trained_parts_in_float32_work_with_frozen_parts_in_bfloat16(
    kind: Callable[..., ChainOfThought],
    parts: list[str],
    live: Callable[..., Session],
    tmp_path: Path,
) -> None:
    lora = LoraConfig(rank=2, alpha=4, dropout=0.0)
    backbone = random(kind, tmp_path, dtype="bfloat16", lora=lora)
    backbone.trainable(parts)
    trained = [parameter for parameter in backbone.parameters() if parameter.requires_grad]
    widen(trained)
    for name in ("encoder", "projector", "lora", "decoder"):
        wide = torch.float32 if name in parts else torch.bfloat16
        assert {parameter.dtype for parameter in backbone.parts()[name]} == {wide}

    losses = backbone(backbone.collator()(PIECES))
    losses["loss"].backward()
    gradients = [parameter.grad for parameter in trained if parameter.grad is not None]
    assert len(gradients) == len(trained)
    assert all(gradient.isfinite().all() for gradient in gradients)
    session = live(backbone, seconds=0.96)
    (answer,) = backbone.decode([session], [Request()], frozenset({Capability.ALIGNMENT}))
    assert answer.alignment is not None
    assert answer.alignment.isfinite().all()
