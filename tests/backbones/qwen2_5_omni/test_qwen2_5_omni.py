"""Qwen2.5-Omni's thinker: equal to Transformers' class, batches equal single streams, parts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from tests.fixtures.streams import white_noise
from zoo.backbones.architectures.thinker.network import audio_part, text_part
from zoo.backbones.base import FrameEncoder
from zoo.backbones.decoding.teacher_forcing import IGNORED
from zoo.backbones.qwen2_5_omni.qwen2_5_omni import Qwen25Omni
from zoo.base.errors import ZooError
from zoo.base.languages import Language, language
from zoo.base.types import NO_CONTEXT, Context
from zoo.streaming.session import Session
from zoo.streaming.text import TextStream

GERMAN = language("de")


@dataclass
class Piece:
    """The fields of an excerpt that a collator reads."""

    audio: Tensor
    transcript: str = "Good morning."
    translation: str = "Guten Morgen."
    language: Language = GERMAN
    context: Context = NO_CONTEXT

    def samples(self) -> Tensor:
        return self.audio


def noise(samples: int, seed: int = 0) -> Tensor:
    return white_noise(samples, seed, scale=0.1)


def test_forward_is_the_class_of_transformers(backbone: Qwen25Omni) -> None:
    """The class computes three-dimensional positions; for audio they equal plain positions."""
    pieces = [
        Piece(noise(16_000)),
        Piece(noise(12_800, seed=1), "The sea is far away.", "Das Meer ist weit."),
    ]
    batch = backbone.collator()(pieces)
    feature_masks = [torch.ones(len(frames), dtype=torch.long) for frames in batch.features]
    lengths = (batch.labels != IGNORED).cumsum(dim=1).argmax(dim=1)
    mask = (torch.arange(batch.labels.shape[1]) <= lengths[:, None]).long()
    theirs = backbone.model(
        input_ids=batch.input_ids,
        attention_mask=mask,
        input_features=pad_sequence(batch.features, batch_first=True).mT.double(),
        feature_attention_mask=pad_sequence(feature_masks, batch_first=True),
    ).logits
    expected = F.cross_entropy(
        theirs[:, :-1].flatten(0, 1), batch.labels[:, 1:].flatten(), ignore_index=IGNORED
    )
    torch.testing.assert_close(backbone(batch)["loss"], expected, rtol=0, atol=1e-12)


def test_2d_positions_are_its_positions(backbone: Qwen25Omni) -> None:
    prompt = backbone.prompt.opening(25, GERMAN)
    ids = torch.tensor([prompt])
    positions, delta = backbone.model.model.get_rope_index(
        ids, attention_mask=torch.ones_like(ids), audio_seqlens=torch.tensor([100])
    )
    assert torch.equal(positions, torch.arange(len(prompt)).expand(3, 1, -1))
    assert float(delta) == 0


def test_the_chat_format_is_qwens(backbone: Qwen25Omni) -> None:
    text = (
        "<|im_start|>system\nYou are a speech translation model.<|im_end|>\n"
        "<|im_start|>user\n<|audio_bos|><|AUDIO|><|AUDIO|><|audio_eos|>"
        "Transcribe the audio to text, and then "
        "translate the audio to German. "
        "Use <sep> as a separator between the original transcript and the translation."
        "<|im_end|>\n<|im_start|>assistant\n"
    )
    ids = backbone.tokenizer(text, add_special_tokens=False)["input_ids"]
    assert backbone.prompt.opening(2, GERMAN) == ids


@pytest.mark.parametrize("samples", [1, 639, 640, 641, 10_240])
def test_no_sound_at_the_end_is_lost(backbone: Qwen25Omni, samples: int) -> None:
    [speech] = speech_embeddings(backbone, [noise(samples)])
    assert len(speech) == -(-samples // backbone.frame_samples)


def test_a_ragged_batch_is_as_each_alone(backbone: Qwen25Omni) -> None:
    waves = [noise(samples, seed) for seed, samples in enumerate((639, 10_240, 35_000))]
    for wave, speech in zip(waves, speech_embeddings(backbone, waves), strict=True):
        torch.testing.assert_close(
            speech, speech_embeddings(backbone, [wave])[0], rtol=0, atol=1e-12
        )


def test_an_encoder_is_trained_on_its_own(backbone: Qwen25Omni) -> None:
    assert isinstance(backbone, FrameEncoder)
    waves = torch.stack([noise(20_480), noise(20_480, 1)])
    hidden, middle = backbone.encode_training(waves, 1)
    assert hidden.shape == middle.shape == (2, 32, 12)
    torch.testing.assert_close(
        backbone.project(hidden)[1], speech_embeddings(backbone, [waves[1]])[0], rtol=0, atol=1e-12
    )


def test_parts_are_all_but_what_is_never_used(backbone: Qwen25Omni) -> None:
    parts = {name: set(map(id, parameters)) for name, parameters in backbone.parts().items()}
    names = {id(parameter): name for name, parameter in backbone.model.named_parameters()}
    assert sum(map(len, parts.values())) == len(set().union(*parts.values()))
    left = [name for number, name in names.items() if number not in set().union(*parts.values())]
    assert all(
        name.startswith(("model.visual.", "model.audio_tower.audio_bos_eos_token")) for name in left
    )
    assert {names[number].rsplit(".", 1)[0] for number in parts["projector"]} == {
        "model.audio_tower.ln_post",
        "model.audio_tower.proj",
    }


def test_gradients_reach_the_parts_that_are_trained_and_no_others(backbone: Qwen25Omni) -> None:
    batch = backbone.collator()([Piece(noise(12_800))])
    for names in (("projector", "decoder"), ("encoder",)):
        backbone.zero_grad()
        backbone.trainable(names)
        backbone(batch)["loss"].backward()
        for name, parameters in backbone.parts().items():
            given = [
                parameter.grad is not None and bool(parameter.grad.any())
                for parameter in parameters
            ]
            assert all(given) if name in names else not any(given), name
    with pytest.raises(ZooError, match="choose one of: encoder, projector, decoder"):
        backbone.trainable(["vision"])


def test_checkpointed_gradients_are_the_same(tiny: Callable[..., Qwen25Omni]) -> None:
    pieces = [Piece(noise(12_800)), Piece(noise(12_800, 1))]
    plain, once, in_all = gradients(tiny(), pieces)
    checkpointed, again, twice = gradients(tiny(gradient_checkpointing=True), pieces)
    assert (once, in_all, again, twice) == (2, 2, 2, 4)  # passes through a layer of either kind
    for expected, found in zip(plain, checkpointed, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def gradients(backbone: Qwen25Omni, pieces: Sequence[Piece]) -> tuple[list[Tensor], int, int]:
    """Of all parts; passes through an audio and a text layer, forward and in all."""
    passes: list[str] = []
    for part in (audio_part(backbone.model), text_part(backbone.model)):
        part.layers[0].self_attn.register_forward_hook(
            lambda module, *_: passes.append(type(module).__name__)
        )
    backbone.train()
    loss = backbone(backbone.collator()(pieces))["loss"]
    forward = len(passes)
    loss.backward()
    return (
        [parameter.grad for part in backbone.parts().values() for parameter in part],
        forward,
        len(passes),
    )


def speech_embeddings(backbone: Qwen25Omni, waves: Sequence[Tensor]) -> list[Tensor]:
    sessions = []
    for _ in waves:
        text = TextStream(decode=backbone.text, separator=" ")
        sessions.append(Session("talk", language("en"), GERMAN, backbone.frame_samples, text))
        sessions[-1].backbone_state = backbone.open(sessions[-1])
    return backbone.encode_audio(sessions, waves)
