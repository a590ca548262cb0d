"""espeak-ng synthesises the written text, with the real library."""

import gc

import pytest
import torch

from tests.synthesizers.speech_requests import requests_for
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.synthesizers.espeak import Espeak


def test_text_is_spoken_and_punctuation_is_silent() -> None:
    waves = Espeak().synthesize(requests_for("Guten Tag", ".", " der Wind", ""))
    assert [wave.dtype for wave in waves] == [torch.float32] * 4
    assert [0.2 < len(wave) / 16_000 < 1.5 for wave in waves] == [True, False, True, False]
    assert [len(waves[index]) for index in (1, 3)] == [0, 0]
    assert 0.1 < float(waves[0].abs().max()) <= 1


def test_a_batch_equals_its_texts_alone() -> None:
    espeak = Espeak()
    both = espeak.synthesize(requests_for("Guten Tag", "der Wind"))
    alone = [espeak.synthesize(requests_for(text))[0] for text in ("Guten Tag", "der Wind")]
    assert all(torch.equal(left, right) for left, right in zip(both, alone, strict=True))


def test_rate_pitch_and_voice_change_the_speech() -> None:
    usual, fast, high, female = (
        espeak.synthesize(requests_for("Guten Tag"))[0]
        for espeak in (Espeak(), Espeak(rate=300), Espeak(pitch=90), Espeak(voice="de+f2"))
    )
    assert len(fast) < 0.8 * len(usual)
    assert not torch.equal(high, usual)
    assert not torch.equal(female, usual)


def test_languages_have_a_voice() -> None:
    for code in ("ar", "cs", "de", "en", "es", "fr", "it", "ja", "ko", "ru", "tr", "vi", "zh"):
        Espeak().check(language(code))
    with pytest.raises(ZooError, match="no voice 'bo'"):
        Espeak().check(language("bo"))
    [wave] = Espeak().synthesize(requests_for("你好。", target="zh"))
    assert len(wave) > 4_000


def test_text_without_a_voice_is_refused_first() -> None:
    with pytest.raises(
        ZooError, match=r"no voice 'klingon'; set synthesizer.voice to one of: .*\bde\b"
    ):
        Espeak(voice="klingon").check(language("de"))
    with pytest.raises(ZooError, match="rate from 80 to 450"):
        Espeak(rate=20)
    with pytest.raises(ZooError, match="pitch_range from 0 to 99"):
        Espeak(pitch_range=100)


def test_its_process_starts_with_the_first_word_and_ends_with_it() -> None:
    espeak = Espeak()
    espeak.synthesize(requests_for("..."))
    assert espeak._speaker is None
    espeak.synthesize(requests_for("Tag"))
    assert espeak._speaker is not None
    process = espeak._speaker._process
    assert process.poll() is None
    del espeak
    gc.collect()
    assert process.poll() == 0
