"""SeamlessM4T alone: languages, transcripts, half a pair of features, characters."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import SeamlessM4TFeatureExtractor

from tests.fixtures.streams import new_session, white_noise
from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.decoding.search import SearchConfig
from zoo.backbones.encoders.audio.spectrogram import Filterbank, seamless_features
from zoo.backbones.seamless_m4t.languages import CODES
from zoo.backbones.seamless_m4t.seamless_m4t import SeamlessM4T
from zoo.base.errors import ZooError
from zoo.base.languages import LANGUAGES
from zoo.base.types import Capability, Request, Task
from zoo.streaming.session import Session

Folders = Callable[..., Path]


def load(folder: Path) -> SeamlessM4T:
    backbone = SeamlessM4T(
        name=str(folder),
        alignment=AlignmentConfig(layer=1),
        search=SearchConfig(no_repeat_ngram=2),
        dtype="float64",
        max_tokens=12,
    )
    backbone.load()
    return backbone


def opened(backbone: SeamlessM4T, source: str, target: str) -> Session:
    audio = white_noise(40_000, seed=2, scale=0.1)
    return new_session(backbone, audio, source=source, target=target)


def test_every_code_belongs_to_a_language_of_the_zoo() -> None:
    assert CODES.keys() <= LANGUAGES.keys()
    assert len(set(CODES.values())) == len(CODES)


@pytest.mark.parametrize("kind", ["seamless_m4t", "seamless_m4t_v2"])
def test_the_opening_holds_the_target_language(kind: str, folders: Folders) -> None:
    backbone = load(folders(kind))
    session = opened(backbone, "de", "zh")
    openings = [
        backbone.tokenizer.convert_ids_to_tokens(backbone.opening(session, task)) for task in Task
    ]
    assert openings == [["</s>", "__cmn__"], ["</s>", "__deu__"]]
    with pytest.raises(
        ZooError,
        match=r"does not write Korean; choose one of: de, en, es, fr, it, ja, nl, pt, ro, ru, zh",
    ):
        opened(backbone, "en", "ko")


def test_a_transcript_is_what_a_translation_into_the_source_language_is(folders: Folders) -> None:
    backbone = load(folders("seamless_m4t_v2"))
    session, same = opened(backbone, "de", "en"), opened(backbone, "de", "de")
    [transcript] = backbone.decode([session], [Request(task=Task.TRANSCRIPTION)], frozenset())
    [expected] = backbone.decode([same], [Request()], frozenset())
    assert transcript.token_ids.tolist() == expected.token_ids.tolist()
    assert transcript.transcript == backbone.text(expected.token_ids.tolist()).strip()


def test_what_is_written_in_characters_begins_with_each_of_them(folders: Folders) -> None:
    backbone = load(folders("seamless_m4t_v2"))
    ids = backbone.tokenizer.convert_tokens_to_ids(["▁", "早", "上", "。"])
    chinese = backbone.vocabulary(opened(backbone, "en", "zh"), Task.TRANSLATION)
    german = backbone.vocabulary(opened(backbone, "en", "de"), Task.TRANSLATION)
    assert chinese.word_starts(torch.tensor(ids[1:])).all()
    assert german.word_starts(torch.tensor(ids)).tolist() == [True, False, False, False]
    assert chinese.sentence_ends(torch.tensor(ids)).tolist() == [False, False, False, True]
    [hypothesis] = backbone.decode(
        [opened(backbone, "en", "zh")], [Request()], frozenset({Capability.ALIGNMENT})
    )
    assert hypothesis.word_starts.tolist() == chinese.word_starts(hypothesis.token_ids).tolist()


@pytest.mark.parametrize("samples", [16_000, 16_000 + 160])
def test_half_a_pair_of_features_waits(samples: int) -> None:
    """Transformers pads and masks the odd frame, but its adaptor still uses it."""
    wave = torch.randn(samples, generator=torch.Generator().manual_seed(0))
    inputs = SeamlessM4TFeatureExtractor()(wave.numpy(), sampling_rate=16_000, return_tensors="pt")
    odd = samples != 16_000
    assert inputs["input_features"].shape[1] == int(inputs["attention_mask"].sum()) + odd
    spectrogram = Filterbank(80)
    assert len(seamless_features(spectrogram.compute(spectrogram.open(), wave, 0), 2)) == 49


def test_a_model_without_languages_or_with_another_adaptor_is_refused(
    folders: Folders, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(folders("seamless_m4t_v2"), tmp_path / "copy"))
    generation = json.loads((folder / "generation_config.json").read_text())
    generation["text_decoder_lang_to_code_id"]["deu"] += 1
    (folder / "generation_config.json").write_text(json.dumps(generation))
    with pytest.raises(ZooError, match=r"is not its network's \(__deu__ differ\)"):
        load(folder)
    del generation["text_decoder_lang_to_code_id"]
    (folder / "generation_config.json").write_text(json.dumps(generation))
    with pytest.raises(ZooError, match="lists no languages"):
        load(folder)
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(settings | {"adaptor_stride": 4}))
    with pytest.raises(ZooError, match="another adaptor"):
        load(folder)
