"""Word times of pocketsphinx, on synthesised speech and on the recordings of its source package."""

import json
import os
import re
import statistics
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from zoo.alignment.recognisers.clean_speech import clean_line
from zoo.alignment.times import sphinx as module
from zoo.alignment.times.sphinx import SphinxTimes, spoken_words
from zoo.base.audio import files as audio
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.talks import Segment, Talk
from zoo.data.utterances import read_utterances

SOURCE = os.environ.get("POCKETSPHINX_SOURCE")  # folder of the unpacked source package


def aligner() -> SphinxTimes:
    pytest.importorskip("pocketsphinx")
    found = SphinxTimes()
    found.load()
    return found


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    """One English sentence of espeak-ng with its word times, 1 s after the start of the file."""
    text = "He was not an old man when the teacher threw away his expensive ticket."
    line = replace(clean_line(text, language("de")), voice="en")
    utterances = read_utterances([line], cache=tmp_path)
    samples = torch.from_numpy(utterances.speech(0))
    audio.write(tmp_path / "talk.wav", torch.cat([torch.zeros(16_000), samples]))
    duration = len(samples) / 16_000
    segment = Segment(0.0, duration, text, utterances.times(0)[0])
    return Talk("talk", tmp_path / "talk.wav", duration, "en", (segment,), offset=1.0)


def test_transcripts_are_split_into_words_of_a_dictionary() -> None:
    assert spoken_words("Don’t – “well-known” (Applause)") == ["don't", "well", "known", "applause"]
    assert spoken_words("– ...") == []


def test_words_have_the_times_of_the_synthesiser(talk: Talk) -> None:
    [segment] = talk.segments
    [result] = aligner().times(talk, talk.segments)
    assert result.problem == ""
    assert " ".join(word.text for word in result.words) == segment.source
    pairs = list(zip(result.words, segment.words, strict=True))
    wrong = [abs(a.start - b.start) for a, b in pairs] + [abs(a.end - b.end) for a, b in pairs]
    assert statistics.median(wrong) < 0.15


def test_segments_that_cannot_be_aligned_are_reported(talk: Talk) -> None:
    [segment] = talk.segments
    problems = [
        result.problem
        for result in aligner().times(
            talk,
            [
                replace(segment, source="–"),
                replace(segment, source="In 1984 a zxqv."),
                replace(segment, duration=0.2),
            ],
        )
    ]
    assert problems == [
        "the transcript has no word",
        "the dictionary of pocketsphinx lacks 1984, zxqv",
        "pocketsphinx found no alignment",
    ]


def test_a_missing_package_and_another_language_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ZooError, match="choose one of: en"):
        SphinxTimes(language="de")
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(ZooError, match=r"simulzoo\[align\]"):
        SphinxTimes().check()


@pytest.mark.skipif(SOURCE is None, reason="POCKETSPHINX_SOURCE names no source package")
def test_recordings_of_librivox_have_the_published_times() -> None:
    assert SOURCE is not None
    sphinx = aligner()
    files = sorted((Path(SOURCE) / "test" / "data" / "librivox").glob("*.wav"))
    assert len(files) == 5
    for file in files:
        source = " ".join(file.with_suffix(".txt").read_text().split())
        written = f"“{source.capitalize()},” –"  # as a corpus may write it
        duration = audio.duration(file)
        talk = Talk(file.stem, file, duration, "en", (Segment(0.0, duration, written),))
        [result] = sphinx.times(talk, talk.segments)
        assert " ".join(word.text for word in result.words) == written

        published = json.loads(file.with_suffix(".json").read_text())["w"]
        gold = [item for item in published if not item["t"].startswith("<")]
        wrong: list[float] = []
        for word, item in zip(result.words, gold, strict=False):
            assert re.sub(r"\W", "", word.text.lower()) == re.sub(r"\(\d\)|\W", "", item["t"])
            wrong += [abs(word.start - item["b"]), abs(word.end - item["b"] - item["d"])]
        assert statistics.median(wrong) <= 0.02
        assert max(wrong) < 0.3
