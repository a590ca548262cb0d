"""Training a small SeamlessM4T: rows equal single examples, frames, parts, saved files."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import (
    SeamlessM4TForSpeechToSpeech,
    SeamlessM4TForSpeechToText,
    SeamlessM4TForTextToSpeech,
    SeamlessM4TModel,
    SeamlessM4TTokenizer,
)

from tests.fixtures.descent import assert_descends, trainable
from tests.fixtures.streams import white_noise
from zoo.backbones.base import FrameEncoder, TokenizerCorpus
from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.seamless_m4t.network import random_network, train_pieces
from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.base.audio import files as audio
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.talks import Segment, Talk, Target
from zoo.data.excerpts import Excerpt
from zoo.training.objectives.teacher_forcing import TeacherForced

GERMAN = language("de")
TEXT = "Die alte Katze schläft, wenn der Lehrer kommt."
SHAPE = {
    "hidden_size": 16,
    "initializer_range": 0.2,
    "speech_encoder_layers": 2,
    "speech_encoder_attention_heads": 2,
    "speech_encoder_intermediate_size": 24,
    "speech_encoder_layerdrop": 0.0,
    "position_embeddings_type": "rotary",
    "conv_depthwise_kernel_size": 5,
    "adaptor_dropout": 0.0,
    "encoder_layers": 1,
    "encoder_ffn_dim": 24,
    "encoder_attention_heads": 2,
    "decoder_layers": 2,
    "decoder_ffn_dim": 24,
    "decoder_attention_heads": 2,
    "decoder_layerdrop": 0.0,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "t2u_encoder_layers": 1,
    "t2u_decoder_layers": 1,
    "t2u_encoder_ffn_dim": 24,
    "t2u_decoder_ffn_dim": 24,
    "t2u_encoder_attention_heads": 2,
    "t2u_decoder_attention_heads": 2,
    "unit_hifi_gan_vocab_size": 12,
    "unit_embed_dim": 8,
    "lang_embed_dim": 4,
    "spkr_embed_dim": 4,
    "vocoder_num_langs": 1,
    "vocoder_num_spkrs": 1,
    "upsample_rates": [10, 8, 4],
    "upsample_kernel_sizes": [20, 16, 8],
    "upsample_initial_channel": 16,
}
Make = Callable[..., SeamlessM4TSpeech]


def wave(seconds: float, seed: int = 0) -> Tensor:
    return white_noise(round(seconds * 16_000), seed, scale=0.1)


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pieces")
    train_pieces([TEXT], size=60, source="en", target="de").save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def make(pieces: Path) -> Make:
    def build(*, seed: int = 0, **options: Any) -> SeamlessM4TSpeech:
        torch.manual_seed(seed)
        scratch = {"config": SHAPE, "tokenizer": str(pieces)} if "name" not in options else {}
        arguments = {
            "dtype": "float64",
            "reader": True,
            "alignment": AlignmentConfig(layer=1),
            **scratch,
            **options,
        }
        backbone = SeamlessM4TSpeech(**arguments)
        backbone.load()
        return backbone

    return build


@pytest.fixture
def excerpts(tmp_path: Path) -> list[Excerpt]:
    audio.write(tmp_path / "talk.wav", wave(8.0))
    talk = Talk("talk", tmp_path / "talk.wav", 8.0, "en", ())
    return [
        Excerpt(talk, 0.0, 4.5, (), ("Die", "alte", "Katze"), GERMAN),
        Excerpt(talk, 5.03, 6.11, (), ("Katze.",), GERMAN),
        Excerpt(talk, 7.0, 7.3, (), (), GERMAN),
    ]


def loss(backbone: SeamlessM4TSpeech, excerpts: list[Excerpt]) -> Tensor:
    return torch.as_tensor(backbone(backbone.collator()(excerpts))["loss"])


def test_rows_of_a_batch_equal_each_alone_in_training_too(
    make: Make, excerpts: list[Excerpt]
) -> None:
    backbone = make().train()
    with torch.no_grad():
        # statistics that matter
        backbone.encode_training(torch.stack([wave(1.0, seed) for seed in range(2)]), 1)
        together, alone = (
            loss(backbone, excerpts),
            [loss(backbone, [excerpt]) for excerpt in excerpts],
        )
    sizes = [
        len(backbone.tokenizer.encode(one.text, add_special_tokens=False)) + 1 for one in excerpts
    ]
    mean = sum(one * size for one, size in zip(alone, sizes, strict=True)) / sum(sizes)
    assert float(together) == pytest.approx(float(mean), rel=1e-9)


def test_an_excerpt_is_encoded_as_a_stream_is(make: Make, excerpts: list[Excerpt]) -> None:
    backbone = make()
    batch = backbone.collator()(excerpts[:2])
    with torch.no_grad():
        memory, memory_mask = backbone.memories(batch.features, batch.lengths)
    stream: Any = SimpleNamespace(
        backbone_state=SimpleNamespace(features=backbone.spectrogram.open()), audio_start=0
    )
    with torch.no_grad():
        [states] = backbone.encode_audio([stream], [excerpts[1].samples()])
    assert memory_mask.sum(dim=1).tolist() == [28 + 1, len(states)]
    torch.testing.assert_close(memory[1, : len(states)], states)


def test_a_batch_is_collated_in_a_worker_and_forced_words_have_no_label(
    make: Make, excerpts: list[Excerpt]
) -> None:
    backbone = make()
    collate = pickle.loads(pickle.dumps(backbone.collator()))
    free, forced = collate(excerpts[:1]), collate([replace(excerpts[0], num_forced=2)])
    given = len(backbone.tokenizer.encode("Die alte", add_special_tokens=False))
    opening = [3, int(backbone.languages.ids["deu"])]
    assert backbone.tokenizer.convert_ids_to_tokens(opening) == ["</s>", "__deu__"]
    assert free.inputs[0, :2].tolist() == opening
    assert free.labels[0, 0] == -100
    assert free.labels[0, 1:].tolist() == [*free.inputs[0, 2:].tolist(), opening[0]]
    assert forced.inputs.equal(free.inputs)
    assert (forced.labels[0, : 1 + given] == -100).all()
    assert forced.labels[0, 1 + given :].equal(free.labels[0, 1 + given :])


def test_each_label_of_20_ms_has_a_frame_and_only_frame_training_updates_batch_statistics(
    make: Make, excerpts: list[Excerpt]
) -> None:
    backbone = make().train()
    assert isinstance(backbone, FrameEncoder)
    assert isinstance(backbone, TeacherForced)
    layer: Any = backbone.encoder.encoder.layers[0]
    means: Tensor = layer.conv_module.batch_norm.running_mean
    before = means.clone()
    loss(backbone, excerpts)
    assert means.equal(before)
    samples = torch.stack([wave(0.64, seed) for seed in range(3)])
    hidden, middle = backbone.encode_training(samples, 1)
    assert hidden.shape == middle.shape == (3, 32, 16)
    assert not means.equal(before)
    means_after_training = means.clone()
    again, _ = backbone.eval().encode_training(samples, 1)
    assert means.equal(means_after_training)
    torch.testing.assert_close(again[:1], backbone.encode_training(samples[:1], 1)[0])


def test_parts_are_disjoint_and_only_the_named_parts_are_trained(
    make: Make, excerpts: list[Excerpt]
) -> None:
    backbone = make()
    parts = {name: set(parameters) for name, parameters in backbone.parts().items()}
    assert set(parts) == {"encoder", "adaptor", "decoder", "reader", "t2u", "vocoder"}
    speech_parts = parts["encoder"] | parts["adaptor"]
    assert speech_parts == set(backbone.encoder.parameters())
    assert not parts["encoder"] & parts["adaptor"]
    backbone.trainable(["adaptor", "decoder"])
    loss(backbone, excerpts).backward()
    touched = {parameter for parameter in backbone.parameters() if parameter.grad is not None}
    assert touched == parts["adaptor"] | parts["decoder"]
    with pytest.raises(ZooError, match="part of the backbone"):
        backbone.trainable(["adapter"])


def test_the_loss_falls_along_its_gradient(make: Make, excerpts: list[Excerpt]) -> None:
    backbone = make().train()
    backbone.trainable(["encoder", "adaptor", "decoder"])
    parameters = trainable(backbone)
    batch = backbone.collator()(excerpts[:2])
    moved = assert_descends(lambda: backbone(batch), "loss", parameters)
    assert moved == set(parameters)


def test_weights_there_and_back_by_the_classes_of_transformers(
    make: Make, excerpts: list[Excerpt], tmp_path: Path
) -> None:
    first = make(seed=1)
    first.save(tmp_path / "whole")
    kinds: list[Any] = [
        SeamlessM4TModel,
        SeamlessM4TForSpeechToSpeech,
        SeamlessM4TForSpeechToText,
        SeamlessM4TForTextToSpeech,
    ]
    for kind in kinds:
        model, loading_info = kind.from_pretrained(tmp_path / "whole", output_loading_info=True)
        assert not loading_info["missing_keys"], kind
        assert not loading_info["mismatched_keys"], kind
        assert model.generation_config.to_dict()["vocoder_lang_code_to_id"] == {"deu": 0}
    second = make(name=str(tmp_path / "whole"), seed=2)
    with torch.no_grad():
        assert float(loss(second, excerpts)) == pytest.approx(
            float(loss(first, excerpts)), rel=1e-9
        )
    assert (
        second.decoder.head.weight.data_ptr()
        == second.decoder.module.embed_tokens.weight.data_ptr()
    )
    first.save(tmp_path / "half", torch.bfloat16)
    half = load_file(tmp_path / "half" / "model.safetensors")
    assert half["shared.weight"].dtype == torch.bfloat16
    frequencies = "speech_encoder.encoder.embed_positions.inv_freq"
    torch.testing.assert_close(
        half[frequencies], first.encoder.state_dict()[frequencies.partition(".")[2]]
    )
    with torch.no_grad():
        close = float(loss(make(name=str(tmp_path / "half")), excerpts))
        assert close == pytest.approx(float(loss(first, excerpts)), rel=0.05)


def test_pieces_give_the_text_back_and_none_has_a_word_and_its_punctuation() -> None:
    tokenizer = train_pieces([TEXT] * 2, size=200, source="en", target="de")
    ids = tokenizer.encode(TEXT, add_special_tokens=False)
    assert tokenizer.decode(ids) == TEXT
    assert tokenizer.convert_ids_to_tokens(ids)[:4] == ["▁Die", "▁alte", "▁Katze", "▁schläft"]
    assert tokenizer.convert_ids_to_tokens(ids)[-1] == "."
    assert tokenizer.convert_ids_to_tokens([0, 1, 2, 3]) == ["<pad>", "<unk>", "<s>", "</s>"]
    assert tokenizer.tgt_lang == "__deu__"
    assert len(tokenizer) <= 200
    with pytest.raises(ZooError, match="no language 'xx'"):
        train_pieces([TEXT], size=200, source="en", target="xx")


def test_fields_that_make_no_network_are_refused(make: Make) -> None:
    tokenizer = make().tokenizer
    with pytest.raises(ZooError, match=r"field of backbone\.config"):
        random_network({**SHAPE, "layers": 3}, tokenizer, dtype=torch.float32)
    with pytest.raises(ZooError, match=r"backbone\.config makes no SeamlessM4T"):
        random_network({**SHAPE, "conv_depthwise_kernel_size": 4}, tokenizer, dtype=torch.float32)


def test_a_training_makes_pieces_of_the_target_texts(tmp_path: Path) -> None:
    segment = Segment(0.0, 1.0, "A cat.", targets={"de": Target("Eine Katze.")})
    talks = [Talk("talk", tmp_path / "talk.wav", 1.0, "en", (segment,))]
    corpus = TokenizerCorpus(
        talks=talks, source=language("en"), target=GERMAN, size=50, multipliers={1}
    )
    SeamlessM4TSpeech.train_tokenizer(corpus, tmp_path, {})
    tokenizer = SeamlessM4TTokenizer.from_pretrained(tmp_path)
    assert tokenizer.tokenize("Eine Katze.") == ["▁Eine", "▁Katze", "."]
    assert tokenizer.tgt_lang == "__deu__"
