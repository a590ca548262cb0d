"""Texts as speech: generated and forced as by Transformers' own modules, batches, languages."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import SeamlessM4TForTextToSpeech

from tests.fixtures.tiny_checkpoints import KINDS
from zoo.backbones.seamless_m4t.text_to_speech import TextToSpeech
from zoo.base.errors import ZooError
from zoo.base.languages import language

GERMAN = language("de")
TEXTS = ["Guten Morgen.", "Wir reden heute über das Wetter, und das Wetter ist schön!", "so"]


@pytest.fixture(scope="module")
def voice(folder: Path) -> TextToSpeech:
    synthesizer = TextToSpeech(name=str(folder), max_units=40, dtype="float64")
    synthesizer.load()
    return synthesizer


@torch.inference_mode()
def test_a_text_is_generated_as_transformers_generates_it(
    voice: TextToSpeech, folder: Path, theirs: Any
) -> None:
    network = SeamlessM4TForTextToSpeech.from_pretrained(folder, dtype=torch.float64).eval()
    voice.tokenizer.src_lang = "deu"
    for text, states in zip(TEXTS, voice.states(TEXTS, GERMAN), strict=True):
        given = voice.tokenizer(text, return_tensors="pt")
        ids = network.generate(
            **given,
            tgt_lang="deu",
            return_intermediate_token_ids=True,
            text_max_new_tokens=256,
            speech_max_new_tokens=2,
        ).sequences
        assert ids.shape[1] != given.input_ids.shape[1] + 1  # not the text itself
        expected = theirs.text_decoder(
            input_ids=ids, encoder_hidden_states=theirs.text_encoder(**given).last_hidden_state
        ).last_hidden_state[0]
        torch.testing.assert_close(states[: len(expected)], expected, rtol=0, atol=1e-9)
        assert len(states) - len(expected) in (0, 1)  # an end is added to a text at the limit


@torch.inference_mode()
def test_a_text_is_forced_as_it_is(folder: Path, theirs: Any) -> None:
    """Read with its language and end, written after start and language, and closed."""
    voice = TextToSpeech(name=str(folder), text="forced", max_units=40, dtype="float64")
    voice.load()
    for text, states in zip(TEXTS, voice.states(TEXTS, GERMAN), strict=True):
        voice.tokenizer.src_lang = "deu"
        ids = voice.tokenizer(text, return_tensors="pt").input_ids
        assert voice.tokenizer.decode(ids[0, 1:-1]) == text
        expected = theirs.text_decoder(
            input_ids=torch.cat([torch.tensor([[3]]), ids], dim=1),
            encoder_hidden_states=theirs.text_encoder(input_ids=ids).last_hidden_state,
        ).last_hidden_state[0]
        torch.testing.assert_close(states, expected, rtol=0, atol=1e-9)


@torch.inference_mode()
def test_speech_is_that_of_the_units_of_these_states(voice: TextToSpeech) -> None:
    together = voice.synthesize(TEXTS, GERMAN)
    for text, speech in zip(TEXTS, together, strict=True):
        [alone] = voice.synthesize([text], GERMAN)
        torch.testing.assert_close(speech.samples, alone.samples, rtol=0, atol=1e-6)
        assert torch.equal(speech.durations, alone.durations)
        assert len(speech.samples) == 320 * int(speech.durations.sum())
        assert speech.samples.dtype == torch.float32
        [units] = voice.speaker.units(voice.states([text], GERMAN), [GERMAN])
        assert len(speech.durations) == len(units.ids)
    assert len({len(speech.samples) for speech in together}) > 1
    assert voice.synthesize([], GERMAN) == []


def test_a_language_without_a_voice_is_refused_before_weights_are_read(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    (tmp_path / "generation_config.json").write_text(
        (folder / "generation_config.json").read_text()
    )
    voice = TextToSpeech(name=str(tmp_path))
    voice.check(GERMAN)
    with pytest.raises(
        ZooError,
        match=r"does not speak Japanese; choose one of: de, en, es, fr, it, nl, pt, ro, zh\.",
    ):
        voice.check(language("ja"))


@pytest.mark.parametrize(
    ("file", "key", "value", "sentence"),
    [
        ("config.json", "eos_token_id", [3], r"has eos_token_id=\[3\], which is no token's id"),
        ("config.json", "decoder_start_token_id", None, "decoder_start_token_id"),
        ("generation_config.json", "t2u_lang_code_to_id", ["deu"], "lists no spoken languages"),
        ("generation_config.json", "vocoder_lang_code_to_id", {"deu": "x"}, "no spoken languages"),
    ],
)
def test_fields_of_another_type_are_refused(
    file: str, key: str, value: object, sentence: str, folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    content = json.loads((folder / file).read_text())
    (tmp_path / "copy" / file).write_text(json.dumps({**content, key: value}))
    with pytest.raises(ZooError, match=sentence):
        TextToSpeech(name=str(tmp_path / "copy")).load()


def test_the_second_version_is_refused(tmp_path: Path) -> None:
    KINDS["seamless_m4t_v2"](tmp_path / "v2")
    with pytest.raises(ZooError, match="is a SeamlessM4T v2"):
        TextToSpeech(name=str(tmp_path / "v2")).check(GERMAN)
