"""Speech2Text alone: multilingual models, frames of 40 ms."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import Speech2TextForConditionalGeneration, Speech2TextProcessor

from tests.fixtures.streams import new_session, white_noise
from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.decoding.search import SearchConfig
from zoo.backbones.speech_to_text import SpeechToText
from zoo.base.errors import ZooError
from zoo.base.types import Capability, Request, Task
from zoo.streaming.session import Session

Folders = Callable[..., Path]


def load(folder: Path) -> SpeechToText:
    backbone = SpeechToText(
        name=str(folder),
        alignment=AlignmentConfig(layer=1, ignore_last=1),
        search=SearchConfig(no_repeat_ngram=2),
        dtype="float64",
        max_tokens=12,
    )
    backbone.load()
    return backbone


def opened(backbone: SpeechToText, target: str) -> Session:
    return new_session(backbone, white_noise(32_000, seed=2, scale=0.1), target=target)


def test_a_model_of_one_language_pair_receives_no_language_token(folders: Folders) -> None:
    backbone = load(folders("speech_to_text"))
    assert backbone.opening(opened(backbone, "de"), Task.TRANSLATION) == [backbone.end]


@torch.inference_mode()
def test_a_multilingual_model_receives_the_target_language(folders: Folders) -> None:
    folder = folders("speech_to_text", languages=True)
    backbone = load(folder)
    processor = Speech2TextProcessor.from_pretrained(folder)
    model = Speech2TextForConditionalGeneration.from_pretrained(folder, dtype=torch.float64).eval()
    for target in ("de", "es"):
        session = opened(backbone, target)
        [hypothesis] = backbone.decode([session], [Request()], frozenset())
        features = processor.feature_extractor(
            session.audio.numpy(), sampling_rate=16_000, return_tensors="pt"
        )
        ids = model.generate(
            features["input_features"].double(),
            forced_bos_token_id=processor.tokenizer.lang_code_to_id[target],
            max_new_tokens=13,
            no_repeat_ngram_size=2,
            suppress_tokens=[model.config.pad_token_id],
        )[0].tolist()
        decoder_ids = backbone.opening(session, Task.TRANSLATION) + hypothesis.token_ids.tolist()
        assert ids[: len(decoder_ids)] == decoder_ids
        assert hypothesis.num_new_tokens
    with pytest.raises(
        ZooError,
        match="does not write Chinese; choose target_language from: de, es, fr, it, nl, pt, ro, ru",
    ):
        opened(backbone, "zh")


def test_the_last_frame_is_left_out_of_alignments_by_default(folders: Folders) -> None:
    backbone = load(folders("speech_to_text"))
    [hypothesis] = backbone.decode(
        [opened(backbone, "de")], [Request()], frozenset({Capability.ALIGNMENT})
    )
    assert hypothesis.num_frames == 32_000 // 640 - 1
    default = SpeechToText(name="anything")
    assert (default.alignment.layer, default.alignment.ignore_last, default.search.beams) == (
        3,
        1,
        5,
    )


def test_frames_of_another_length_and_a_layer_that_is_not_there_are_refused(
    folders: Folders, tmp_path: Path
) -> None:
    folder = folders("speech_to_text")
    with pytest.raises(ZooError, match="layer 4, but the decoder's layers are 0 to 3"):
        SpeechToText(name=str(folder), alignment=AlignmentConfig(layer=4)).load()
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    settings = json.loads((copy / "config.json").read_text())
    changed = {"num_conv_layers": 1, "conv_kernel_sizes": [5]}
    Speech2TextForConditionalGeneration(
        type(Speech2TextForConditionalGeneration.from_pretrained(copy).config)(
            **(settings | changed)
        )
    ).save_pretrained(copy)
    with pytest.raises(ZooError, match=r"1 subsampling layers; only 2 \(frames of 40 ms\)"):
        load(copy)
