"""Qwen3-Omni's thinker: equal to Transformers' class, batches equal single streams, parts."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from tests.backbones.architectures.chain_of_thought.test_training import Piece
from tests.fixtures.streams import new_session, white_noise
from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.decoding.teacher_forcing import IGNORED
from zoo.backbones.pretrained.lora import LoraConfig
from zoo.backbones.qwen3_omni.qwen3_omni import Qwen3Omni
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.types import SAMPLE_RATE, Capability, Cut, Request

GERMAN = language("de")
BLOCK = 200  # feature frames of 10 ms, 2 s
FLOAT32 = {"rtol": 0, "atol": 1e-6}  # router and norms compute in float32
PIECES = [
    Piece("Good morning.", "Guten Morgen.", 0, 1.37),
    Piece("The sea is far away.", "Das Meer ist weit.", 1, 2.5),
]
Maker = Callable[..., Qwen3Omni]


def noise(samples: int, seed: int = 0) -> Tensor:
    """Noise that is no louder later: a new maximum changes the frames before it."""
    wave = white_noise(samples, seed, scale=0.1)
    wave[:1600] *= 5
    return wave


def speech_embeddings(backbone: Qwen3Omni, waves: Sequence[Tensor]) -> list[Tensor]:
    with torch.no_grad():
        return backbone.encode_audio([new_session(backbone, wave) for wave in waves], waves)


def test_forward_is_the_class_of_transformers(backbone: Qwen3Omni) -> None:
    """The class computes three-dimensional positions; for audio they equal plain positions."""
    batch = backbone.collator()(PIECES)
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
    torch.testing.assert_close(backbone(batch)["loss"], expected, **FLOAT32)


def test_plain_positions_are_its_positions(backbone: Qwen3Omni) -> None:
    ids = torch.tensor([backbone.prompt.opening(25, GERMAN)])
    model: Any = backbone.model
    positions, delta = getattr(model.model, "get_rope_index", model.get_rope_index)(
        ids, attention_mask=torch.ones_like(ids), audio_seqlens=torch.tensor([188])
    )
    assert torch.equal(positions, torch.arange(ids.shape[1]).expand(3, 1, -1))
    assert float(delta) == 0


def test_the_chat_format_is_qwens(tiny: Maker) -> None:
    backbone = tiny(direct=True)
    text = (
        "<|im_start|>user\n<|audio_start|><|audio_pad|><|audio_pad|><|audio_end|>"
        "Translate the audio to German.<|im_end|>\n<|im_start|>assistant\n"
    )
    ids = backbone.tokenizer(text, add_special_tokens=False)["input_ids"]
    assert backbone.prompt.opening(2, GERMAN) == ids


def test_a_ragged_batch_is_as_each_alone(backbone: Qwen3Omni) -> None:
    waves = [noise(samples, seed) for seed, samples in enumerate((639, 10_240, 35_000))]
    for wave, speech in zip(waves, speech_embeddings(backbone, waves), strict=True):
        [alone] = speech_embeddings(backbone, [wave])
        torch.testing.assert_close(speech, alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize("samples", [0, 200])
@torch.inference_mode()
def test_audio_that_is_too_short_has_no_new_token(backbone: Qwen3Omni, samples: int) -> None:
    session = new_session(backbone, noise(samples), prefix=[70])
    [answer] = backbone.decode([session], [Request()], frozenset({Capability.ALIGNMENT}))
    assert answer.num_new_tokens == 0
    assert answer.require_alignment().shape == (1, 1)


@torch.inference_mode()
def test_complete_blocks_are_encoded_once_and_give_the_embeddings_of_a_new_stream(
    backbone: Qwen3Omni, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert backbone.independent_frames == BLOCK
    counted: list[int] = []
    encode = Qwen3Omni.encode

    def encoded(backbone: Qwen3Omni, features: Sequence[Tensor]) -> Any:
        counted.extend(map(len, features))
        return encode(backbone, features)

    monkeypatch.setattr(Qwen3Omni, "encode", encoded)
    audio = noise(5 * SAMPLE_RATE)
    session = new_session(backbone)
    sizes = []
    for seconds in (0.64, 1.28, 2.3, 3.1, 4.1, 5.0):
        received = audio[: round(seconds * SAMPLE_RATE)]
        [speech] = backbone.encode_audio([session], [received])
        sizes.append(counted.pop())
        assert not counted
        [expected] = speech_embeddings(backbone, [received])
        counted.clear()
        torch.testing.assert_close(speech, expected, rtol=0, atol=1e-11)
    assert sizes == [64, 128, 230, 110, 210, 100]


@torch.inference_mode()
def test_a_token_is_aligned_with_frames_by_the_embedding_that_covers_them(tiny: Maker) -> None:
    """The attention of all layers and heads, as Transformers has it, on 40 ms frames."""
    backbone = tiny(direct=True, max_tokens=4, alignment=AlignmentConfig(layer="all"))
    audio, prefix = noise(17_920), [70, 71]  # 1.12 s
    [answer] = backbone.decode(
        [new_session(backbone, audio, prefix=prefix)],
        [Request()],
        frozenset({Capability.ALIGNMENT}),
    )
    found = answer.require_alignment()
    assert found.shape == (2 + answer.num_new_tokens, 28)

    [speech] = speech_embeddings(backbone, [audio])
    opening = backbone.prompt.opening(len(speech), GERMAN)
    ids = torch.tensor([[*opening, *prefix, *answer.token_ids.tolist()]])
    features = backbone.prepared(
        backbone.spectrogram.compute(backbone.spectrogram.open(), audio, 0)
    )
    text: Any = backbone.decoder.model
    text.set_attn_implementation("eager")
    attentions = backbone.model(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        input_features=features.T[None].double(),
        feature_attention_mask=torch.ones(1, len(features), dtype=torch.long),
        output_attentions=True,
    ).attentions
    weights = torch.stack(attentions).mean(dim=(0, 1, 2))  # (positions, positions)
    first = backbone.prompt.speech
    rows = weights[len(opening) - 1 : -1, first : first + len(speech)]
    covering = [*(index // 2 for index in range(24)), 12, 13, 13, 14]
    torch.testing.assert_close(found, rows[:, covering].to(found), rtol=0, atol=1e-6)


@torch.inference_mode()
def test_a_batch_and_a_cut_stream_answer_as_new_streams_alone(tiny: Maker) -> None:
    backbone = tiny(direct=True, max_tokens=6)
    waves = [noise(samples, seed) for seed, samples in enumerate((9_600, 41_000, 35_840))]
    prefixes = [[], [70, 71], [72]]
    needs, cut = frozenset({Capability.ALIGNMENT}), Cut(frames=7)  # in the middle of a chunk
    sessions = [
        new_session(backbone, wave, prefix=prefix)
        for wave, prefix in zip(waves, prefixes, strict=True)
    ]
    answers = set()
    for _ in range(2):
        for answer, session in zip(
            backbone.decode(sessions, [Request()] * 3, needs), sessions, strict=True
        ):
            new = new_session(backbone, session.audio, prefix=session.prefix_ids.tolist())
            [alone] = backbone.decode([new], [Request()], needs)
            assert answer.token_ids.tolist() == alone.token_ids.tolist()
            assert answer.num_frames == session.kept_frames
            torch.testing.assert_close(answer.alignment, alone.alignment, rtol=0, atol=1e-5)
            answers.add(tuple(answer.token_ids.tolist()))
        for session in sessions:
            backbone.forget(session, cut)
            session.forget(cut)
    assert len(answers) > 2


def test_parts_are_all_but_what_is_never_used(backbone: Qwen3Omni) -> None:
    parts = {name: set(map(id, parameters)) for name, parameters in backbone.parts().items()}
    names = {id(parameter): name for name, parameter in backbone.model.named_parameters()}
    assert sum(map(len, parts.values())) == len(set().union(*parts.values()))
    left = [name for number, name in names.items() if number not in set().union(*parts.values())]
    assert all("visual." in name for name in left)
    projector = {names[number].split(".")[-2] for number in parts["projector"]}
    assert projector == {"ln_post", "proj1", "proj2"}


def test_a_step_trains_the_adapter_alone(tiny: Maker) -> None:
    backbone = tiny(lora=LoraConfig(rank=2, alpha=4, dropout=0.0))
    backbone.trainable(["lora"])
    before = {name: parameter.clone() for name, parameter in backbone.named_parameters()}
    trained = [parameter for parameter in backbone.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.1)
    batch = backbone.collator()(PIECES)
    losses = []
    for _ in range(3):
        loss = backbone(batch)["loss"]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]
    changed = {
        name for name, old in before.items() if not torch.equal(old, backbone.get_parameter(name))
    }
    assert changed
    assert all(".lora_" in name and "audio_tower" not in name for name in changed)


def test_another_chunk_of_the_encoder_is_refused(tiny: Maker, backbone: Qwen3Omni) -> None:
    audio = {**backbone.config["audio_config"], "n_window": 40}
    with pytest.raises(ZooError, match=r"chunks of 80 feature frames .* only 100 are supported"):
        tiny(config={**backbone.config, "audio_config": audio})
