"""References as speech: of every segment, in its language, always the same."""

from pathlib import Path

import pytest
import torch

from zoo.alignment.recognisers.clean_speech import clean_speech
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.talks import Segment, Talk, Target


def talk(*texts: str, code: str = "de") -> Talk:
    segments = [
        Segment(float(place), 1.0, "", targets={code: Target(text)})
        for place, text in enumerate(texts)
    ]
    return Talk("talk", None, float(len(texts)), "en", tuple(segments))


def test_each_segment_is_spoken(tmp_path: Path) -> None:
    german = language("de")
    short, silent, long = clean_speech(
        talk("Das Haus.", "...", "Das Haus ist sehr alt."), german, cache=tmp_path
    )
    assert silent.numel() == 0
    assert 4000 < len(short) < len(long)
    assert float(short.abs().max()) > 0.1
    [again] = clean_speech(talk("Das Haus."), german, cache=tmp_path / "other")
    assert torch.equal(short, again)


def test_every_language_has_its_voice(tmp_path: Path) -> None:
    [german] = clean_speech(talk("die die die"), language("de"), cache=tmp_path)
    [spanish] = clean_speech(talk("die die die", code="es"), language("es"), cache=tmp_path)
    [chinese] = clean_speech(talk("早上好", code="zh"), language("zh"), cache=tmp_path)
    assert len(german) != len(spanish)
    assert len(chinese) > 4000


def test_text_without_a_voice_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZooError, match="'talk' has no Spanish references"):
        clean_speech(talk("Das Haus."), language("es"), cache=tmp_path)
    assert [len(wave) for wave in clean_speech(talk("?", "!"), language("de"), cache=tmp_path)] == [
        0,
        0,
    ]
