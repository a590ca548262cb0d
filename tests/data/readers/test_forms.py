"""The same talks in the layout of every corpus: the same segments, streams and scores."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import soundfile

from tests.contract.scripted import FRAME, WORD_FRAMES, TurnTaker, spans, speak, text_of
from tests.data.readers.forms import PAIR, SENTENCES, SPLIT, WHOLE, Write, cut, samples, save
from tests.fixtures.streams import new_system
from zoo.base.talks import Segment, Talk, Target
from zoo.base.types import SAMPLE_RATE
from zoo.data.readers.folder import Folder
from zoo.data.readers.lhotse import Lhotse
from zoo.data.views import View, sentences
from zoo.evaluation.runner import Evaluator
from zoo.evaluation.settings import Settings
from zoo.policies.turn_taking import TurnTaking
from zoo.runs.rows.row import Row
from zoo.systems.base import StreamingSystem

WORD = WORD_FRAMES * FRAME / SAMPLE_RATE  # seconds
SPOKEN = {"talk.1": [1, 2, 3, 0, 4, 5, 6, 7, 0, 8], "talk.2": [0, 9, 10, 0, 0, 11, 12, 13]}
TIMES = ("RTF", "_CA")  # of scores that depend on the speed of the machine


@pytest.fixture
def talks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Talk]:
    """Two talks of numbered words; the references have other words, so that no score is perfect."""
    monkeypatch.setenv("SIMULZOO_CACHE", str(tmp_path / "cache"))
    found = []
    for name, words in SPOKEN.items():
        path = tmp_path / f"{name}.wav"
        soundfile.write(path, speak(words).numpy(), SAMPLE_RATE, subtype="FLOAT")
        segments = []
        for begin, end in spans(words):
            spoken = words[round(begin / WORD) : round(end / WORD)]
            text = f'{text_of(spoken)} "{len(spoken)}\u2028wörter"'
            source = " ".join(map(str, spoken))
            segments.append(Segment(begin, end - begin, source, targets={"de": Target(text)}))
        found.append(Talk(name, path, len(words) * WORD, "en", tuple(segments)))
    return found


def system() -> StreamingSystem:
    return new_system(TurnTaker(), TurnTaking(), chunk_seconds=2 * WORD)


def scored(talks: Sequence[Talk], folder: Path, view: View = "talks") -> Row:
    settings = Settings(view=view, upper_bound=False, oracle_k=())
    evaluator = Evaluator(corpus="any", talks=talks, settings=settings, folder=folder)
    [row] = evaluator.run(system())
    return row


def ideal(row: Row) -> dict[str, float | None]:
    """Scores that do not depend on the speed of the machine."""
    return {name: value for name, value in row.scores.items() if not name.endswith(TIMES)}


@pytest.mark.parametrize("write", WHOLE.values(), ids=WHOLE)
def test_whole_talks_have_the_same_scores_in_every_form(
    write: Write, talks: list[Talk], tmp_path: Path
) -> None:
    corpus = write(talks, tmp_path / "form")
    found = corpus.talks(SPLIT)
    assert [talk.name.removeprefix("en2de-") for talk in found] == list(SPOKEN)
    assert [len(talk.segments) for talk in found] == [3, 2]
    assert found[0].segments[0].targets["de"].text == 'w1en w2en w3en "3 wörter"'
    expected = scored(talks, tmp_path / "expected")
    assert expected.scores["BLEU"] not in (None, 0.0, 100.0)
    row = scored(found, tmp_path / "found")
    assert ideal(row) == pytest.approx(ideal(expected))
    assert len(corpus.talks(SPLIT, limit=1)) == 1


@pytest.mark.parametrize("write", SENTENCES.values(), ids=SENTENCES)
def test_sentences_have_the_same_scores_in_every_form(
    write: Write, talks: list[Talk], tmp_path: Path
) -> None:
    corpus = write(sentences(talks), tmp_path / "form")
    expected = scored(talks, tmp_path / "expected", view="segments")
    row = scored(corpus.talks(SPLIT), tmp_path / "found", view="segments")
    assert ideal(row) == pytest.approx(ideal(expected))
    assert {"BLEU", "LAAL", "AL"} <= set(ideal(row))


@pytest.mark.parametrize("suffix", ["flac", "ogg", "mp3"])
def test_other_audio_formats_are_read(suffix: str, tmp_path: Path) -> None:
    tone = 0.1 * speak([1, 2, 3]).numpy() % 1
    soundfile.write(tmp_path / f"talk.{suffix}", tone, SAMPLE_RATE)
    [talk] = Folder(root=str(tmp_path), **PAIR).talks(SPLIT)
    assert talk.duration == pytest.approx(3 * WORD, abs=0.1)


def test_the_first_talks_need_only_their_own_audio(talks: list[Talk], tmp_path: Path) -> None:
    corpus = WHOLE["lhotse"](talks, tmp_path)
    (tmp_path / "talk.2.wav").unlink()
    [talk] = corpus.talks(SPLIT, limit=1)
    assert talk.name == "talk.1"


def test_cuts_of_one_recording_are_parts_of_its_file(talks: list[Talk], tmp_path: Path) -> None:
    """The second half of the first talk, whose supervisions begin at the start of the cut."""
    save(talks[0], tmp_path / "talk.1.wav")
    half = replace(talks[0], segments=talks[0].segments[1:])
    start = half.segments[0].offset
    line = cut(half, tmp_path / "talk.1.wav", start=start, duration=talks[0].duration - start)
    (tmp_path / "cuts.jsonl").write_text(json.dumps(line) + "\n")
    [talk] = Lhotse(cuts=str(tmp_path / "cuts.jsonl"), **PAIR).talks(SPLIT)
    assert (talk.offset, talk.segments[0].offset) == (start, 0.0)
    assert talk.duration == pytest.approx(6 * WORD)
    assert samples(talk).tolist() == speak(SPOKEN["talk.1"][4:]).tolist()
