"""A scripted system with speech output, a scripted recogniser: rows, scores and flags by hand."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import soundfile
import torch
from torch import Tensor

from tests.alignment.recognisers.conftest import ctc_folder
from tests.contract.scripted import TurnTaker, text_of
from tests.evaluation.conftest import Evaluate
from tests.evaluation.test_runner import DE, EN, WORD, WORDS, system, talk
from tests.fixtures.loudness import write_utmos
from tests.fixtures.xtts_environment import calls, environment, weights
from zoo.alignment.recognisers.base import Recognised, Recogniser
from zoo.base.errors import ZooError
from zoo.base.languages import Language
from zoo.base.talks import Talk
from zoo.base.talks import Word as TimedWord
from zoo.base.types import SAMPLE_RATE
from zoo.evaluation import speech
from zoo.evaluation.loaded import network_of
from zoo.evaluation.runner import Evaluator, has_speech
from zoo.evaluation.settings import Settings
from zoo.evaluation.speech import SpeechModels
from zoo.runs.results import joint_curves
from zoo.runs.rows.segments import SPOKEN_NAME, read_segments
from zoo.streaming.session import SpeechRequest
from zoo.synthesizers.base import Synthesizer
from zoo.systems.replay import Replay

SPOKEN = 1600  # samples of a word: 0.1 s


def pronounce(text: str) -> Tensor:
    """0.1 s per word w<number>en, at the level of its number."""
    numbers = [float(number) for number in re.findall(r"w(\d+)en", text)]
    return (torch.tensor(numbers) / 100).repeat_interleave(SPOKEN)


class Pronouncer(Synthesizer):
    """Synthesises each word as it is written, ``slow`` times too long, or not at all."""

    def __init__(self, slow: int = 1) -> None:
        self.slow = slow

    def synthesize(self, requests: Sequence[SpeechRequest]) -> list[Tensor]:
        return [pronounce(request.text).repeat_interleave(self.slow) for request in requests]


class Ear:
    """Recognises speech of Pronouncer with chosen substitutions; missing if ``found`` is false."""

    name = "ear"
    language: str | None = "de"

    def __init__(self, *, found: bool = True, mistaken: Sequence[int] = ()) -> None:
        self.found = found
        self.mistaken = mistaken
        self.asked = 0
        self.loaded = 0

    def unavailable_reason(self) -> str | None:
        return None if self.found else "no ear."

    def load(self, device: torch.device | None = None) -> None:
        self.loaded += 1

    def transcribe(self, waves: Sequence[Tensor]) -> list[str]:
        self.asked += 1
        return [" ".join(map(self.word, wave[wave > 0][::SPOKEN].tolist())) for wave in waves]

    def word(self, level: float) -> str:
        number = round(level * 100)
        return "W0en?" if number in self.mistaken else f"W{number}en,"


class TimedEar(Ear):
    """Recognises the words of Pronouncer with their times."""

    def recognise(self, waves: Sequence[Tensor]) -> list[Recognised]:
        return [self._recognised(wave) for wave in waves]

    def _recognised(self, wave: Tensor) -> Recognised:
        edges = [0, *((wave[1:] != wave[:-1]).nonzero()[:, 0] + 1).tolist(), len(wave)]
        words = tuple(
            TimedWord(self.word(float(wave[start])), start / SAMPLE_RATE, end / SAMPLE_RATE)
            for start, end in pairwise(edges)
            if wave[start] > 0
        )
        return Recognised(" ".join(word.text for word in words), words)


@pytest.fixture
def talks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Talk]:
    """Two talks; Pronouncer synthesises the references."""

    def clean(talk: Talk, target: Language) -> list[Tensor]:
        return [pronounce(segment.targets[target.code].text) for segment in talk.segments]

    monkeypatch.setattr(speech, "clean_speech", clean)
    return [talk(tmp_path, "one"), talk(tmp_path, "two")]


def evaluator(
    talks: Sequence[Talk], folder: Path, ear: Recogniser | None, **settings: Any
) -> Evaluator:
    models = SpeechModels.available(
        {"de": ear},
        settings.get("utmos"),
        utmos_trusted=settings.get("utmos_trusted", False),
    )
    return Evaluator(
        corpus="script",
        talks=talks,
        settings=Settings(**{"knob_values": [1], **settings}),
        folder=folder,
        models=models,
    )


def test_scores_of_a_speaking_system(talks: list[Talk], tmp_path: Path) -> None:
    """A word per 0.128 s lasts 0.1 s: it plays when written, and a gap follows each word."""
    ear = Ear()
    speaking = system(TurnTaker(), synthesizer=Pronouncer())
    assert has_speech(speaking)
    row, ceiling = evaluator(talks, tmp_path, ear).run(speaking)
    words = sum(map(len, WORDS))
    assert {
        name: row.scores[name] for name in ("BLEU", "ASR_BLEU", "ASR_chrF", "ASR_DocBLEU")
    } == pytest.approx({"BLEU": 100, "ASR_BLEU": 100, "ASR_chrF": 100, "ASR_DocBLEU": 100})
    assert (row.scores["SpeechWER"], row.scores["SpeechCER"], row.scores["ASR_WER"]) == (
        0.0,
        0.0,
        0.0,
    )
    assert row.scores["StartOffset"] == pytest.approx(WORD)
    source_length = talks[0].duration
    last_word = source_length - WORD  # a silent word follows
    assert row.scores["EndOffset"] == pytest.approx(last_word + 0.1 - source_length)
    assert row.scores["DiscontinuityNum"] == words - 1
    assert row.scores["DiscontinuitySum"] == pytest.approx(last_word - WORD - 0.1 * (words - 1))
    assert row.scores["SpeechOverlap"] == pytest.approx(1.0)
    assert row.scores["EndOffset_CA"] > row.scores["EndOffset"]
    assert row.signatures["ASR_BLEU"].count("asr:ear|normalizer:whisper-basic|reseg:mwer") == 1
    assert row.flags == ()
    text = " ".join(f"W{word}en," for word in range(1, words + 1))
    assert (tmp_path / row.instances).with_name(
        "transcripts.txt"
    ).read_text() == f"one\t{text}\ntwo\t{text}\n"
    assert ceiling.scores["ASR_BLEU"] == pytest.approx(100)
    assert not {"StartOffset", "DiscontinuitySum", "StreamLAAL"} & set(ceiling.scores)


def test_the_recognisers_own_error_is_measured_once(talks: list[Talk], tmp_path: Path) -> None:
    """One word of eleven is substituted in all speech: 9 % are below the limit."""
    ear = Ear(mistaken=[3])
    evaluated = evaluator(talks, tmp_path, ear, knob_values=[1, 3])
    rows = list(evaluated.run(system(TurnTaker(), synthesizer=Pronouncer())))
    assert len(rows) == 3
    assert [row.scores["ASR_WER"] for row in rows] == pytest.approx([100 / 11] * 3)
    assert [row.scores["SpeechWER"] for row in rows] == pytest.approx([100 / 11] * 3)
    assert [row.flags for row in rows] == [()] * 3
    asked_by_rows = 2 + 2 + 4  # a talk at a time; the ceiling recognises segments
    assert ear.asked == asked_by_rows + len(talks)


def test_a_deaf_recogniser_is_flagged(talks: list[Talk], tmp_path: Path) -> None:
    ear = Ear(mistaken=[3, 7])
    (row,) = evaluator(talks, tmp_path, ear, upper_bound=False).run(
        system(TurnTaker(), synthesizer=Pronouncer())
    )
    assert row.flags == (
        "the recogniser makes 18 % word errors on clean speech: ASR scores are unreliable",
    )


def test_without_a_recogniser_there_are_no_asr_scores(talks: list[Talk], tmp_path: Path) -> None:
    for ear, note in ((None, "evaluation.recogniser is null."), (Ear(found=False), "no ear.")):
        evaluated = evaluator(talks, tmp_path / str(ear is None), ear, upper_bound=False)
        (row,) = evaluated.run(system(TurnTaker(), synthesizer=Pronouncer()))
        assert row.scores["StartOffset"] == pytest.approx(WORD)
        assert not {
            "ASR_BLEU",
            "ASR_chrF",
            "ASR_DocBLEU",
            "ASR_WER",
            "SpeechWER",
            "SpeechCER",
        } & set(row.scores)
        assert SpeechModels.available({"de": ear}, None).notes == [
            f"Target speech has no ASR scores: {note}"
        ]


def test_a_language_without_a_voice_has_no_error_of_its_own(
    talks: list[Talk], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(talk: Talk, target: Language) -> list[Tensor]:
        raise ZooError("espeak-ng has no voice 'de'.")

    monkeypatch.setattr(speech, "clean_speech", refuse)
    evaluated = evaluator(talks, tmp_path, Ear(), upper_bound=False)
    (row,) = evaluated.run(system(TurnTaker(), synthesizer=Pronouncer()))
    assert row.scores["ASR_BLEU"] == pytest.approx(100)
    assert "ASR_WER" not in row.scores
    own_error, no_times = evaluated.models.notes
    assert (
        own_error
        == "The recogniser's own error in German was not measured: espeak-ng has no voice 'de'."
    )
    assert "ear gives no times of words" in no_times
    assert "SpeechDrift" not in row.scores


@pytest.mark.parametrize(
    ("slow", "flag"),
    [
        (0, "has no audible speech for 2 of 2 streams (one)"),
        (60, "has 66.0 s of speech for a text of 46 characters (one)"),
    ],
)
def test_ill_speech_is_flagged(slow: int, flag: str, talks: list[Talk], tmp_path: Path) -> None:
    evaluated = evaluator(talks, tmp_path, Ear(), upper_bound=False)
    (row,) = evaluated.run(system(TurnTaker(), synthesizer=Pronouncer(slow)))
    assert flag in row.flags
    assert (row.scores["ASR_BLEU"] == 0.0) == (slow == 0)
    assert (row.scores["EndOffset"] is None) == (slow == 0)
    assert slow or row.scores["SpeechWER"] == 100.0


def test_a_replayed_log_is_transcribed_again(talks: list[Talk], tmp_path: Path) -> None:
    (row,) = evaluator(talks, tmp_path / "run", Ear(), upper_bound=False).run(
        system(TurnTaker(), synthesizer=Pronouncer())
    )
    log = tmp_path / "run" / row.instances
    replay = Replay(log=log, source_language="en", target_language="de")
    assert has_speech(replay)
    (again,) = evaluator(talks, tmp_path / "again", Ear()).run(replay)
    assert set(again.scores) == set(row.scores)
    for name in (
        "ASR_BLEU",
        "SpeechCER",
        "StartOffset",
        "EndOffset",
        "EndOffset_CA",
        "DiscontinuityAve_CA",
    ):
        assert again.scores[name] == pytest.approx(row.scores[name], abs=1e-6), name


def test_latency_of_recognised_words_survives_both_logs(talks: list[Talk], tmp_path: Path) -> None:
    """A word of 0.128 s is written at its end and its speech ends 0.1 s later: all lag by 0.1 s."""
    (row,) = evaluator(talks, tmp_path / "run", TimedEar(), upper_bound=False).run(
        system(TurnTaker(), synthesizer=Pronouncer())
    )
    assert row.scores["SpeechDrift"] == pytest.approx(0, abs=1e-6)
    # Word n (from 0) of a segment without pauses ends n + 1 words and 0.1 s after its start.
    assert row.scores["SpeechLongYAAL"] == pytest.approx(WORD + 0.1)
    folder = (tmp_path / "run" / row.instances).parent
    spoken = read_segments(folder / SPOKEN_NAME, needed_by="a test")
    written = read_segments(folder / "segments.jsonl", needed_by="a test")
    for recognised, read in zip(spoken, written, strict=True):
        assert recognised.hypothesis.replace(",", "") == read.hypothesis.replace("w", "W")
        assert recognised.delays == pytest.approx([delay + 0.1 for delay in read.delays], abs=1e-4)

    names = ("SpeechLongYAAL", "SpeechDrift", "StartOffset", "EndOffset", "ASR_BLEU")
    for log in ("instances.log", "speech/instances.log"):  # ours, and SimulEval's of speech output
        replay = Replay(log=folder / log, source_language="en", target_language="de")
        (again,) = evaluator(talks, tmp_path / log, TimedEar(), upper_bound=False).run(replay)
        for name in names:
            assert again.scores[name] == pytest.approx(row.scores[name], abs=1e-4), (log, name)
        assert ("BLEU" in again.scores) == (log == "instances.log")
        assert not again.flags


def test_text_systems_and_oracles_load_no_recogniser(talks: list[Talk], tmp_path: Path) -> None:
    ear = Ear()
    evaluated = evaluator(talks, tmp_path, ear)
    silent = system(TurnTaker())
    assert not has_speech(silent)
    rows = [*evaluated.run(silent), *evaluated.oracles(DE, EN)]
    assert ear.asked == 0
    assert not list(tmp_path.rglob("transcripts.txt"))
    assert not any(
        name.startswith(("ASR", "Speech", "Disc")) for row in rows for name in row.scores
    )


def test_curves_of_text_and_of_speech(talks: list[Talk], tmp_path: Path) -> None:
    rows = list(
        evaluator(talks, tmp_path, Ear(), upper_bound=False).run(
            system(TurnTaker(), synthesizer=Pronouncer())
        )
    )
    (row,) = rows
    assert joint_curves(rows) == {
        (x, y): {row.system: [(row.scores[x], row.scores[y])]}
        for x, y in (("StreamLAAL", "BLEU"), ("StartOffset", "ASR_BLEU"))
    }
    other = replace(row, system="b", scores={"BLEU": 1.0, "StreamLAAL": 2.0, "StartOffset": 1.0})
    written, spoken = joint_curves([row, other])
    assert (written, spoken) == (("StreamLAAL", "BLEU"), ("StartOffset", "ASR_BLEU"))
    assert joint_curves([row, other])[written]["b"] == [(2.0, 1.0)]
    assert list(joint_curves([row, other])[spoken]) == [row.system], "one system only writes"


def test_sentences_have_a_token_delay(talks: list[Talk], tmp_path: Path) -> None:
    ear = Ear()
    evaluated = evaluator(talks, tmp_path, ear, view="segments", upper_bound=False)
    (row,) = evaluated.run(system(TurnTaker(), synthesizer=Pronouncer()))
    assert row.scores["SpeechATD"] is not None
    assert row.scores["ASR_BLEU"] == pytest.approx(100)
    assert "reseg" not in row.signatures["ASR_BLEU"]
    assert row.scores["ASR_WER"] == 0.0
    sentences = sum(len(talk.segments) for talk in talks)
    assert ear.asked == sentences + len(talks), (
        "clean speech is that of whole talks, as in every other view"
    )


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_naturalness(talks: list[Talk], tmp_path: Path) -> None:
    write_utmos(tmp_path / "loud.pt")
    evaluated = evaluator(
        talks,
        tmp_path,
        None,
        upper_bound=False,
        utmos=str(tmp_path / "loud.pt"),
        utmos_trusted=True,
    )
    (row,) = evaluated.run(system(TurnTaker(), synthesizer=Pronouncer()))
    assert row.scores["UTMOS"] == pytest.approx(1 + 11 / 100)
    assert row.signatures["UTMOS"].startswith("UTMOS|network:loud.pt|")
    with pytest.raises(ZooError, match="weights are not downloaded"):
        SpeechModels.available({"de": None}, "nowhere.pt")
    assert SpeechModels.available({}, "nowhere.pt").utmos is None, "nobody speaks"


def test_recognisers_load_the_folders_found(tmp_path: Path) -> None:
    there, gone = Ear(), Ear(found=False)
    models = SpeechModels.available({"de": there, "es": gone}, None)
    models.load(torch.device("cpu"))
    assert (there.loaded, gone.loaded) == (1, 0)
    assert text_of(WORDS[0]) == "w1en w2en w3en w4en w5en"


SPEAKING = (
    "synthesizer=espeak",
    "evaluation.talks=1",
    "evaluation.knob_values=[2]",
    "evaluation.upper_bound=false",
)


def test_a_recogniser_by_name_from_the_command_to_the_report(
    evaluate: Evaluate, mustc: list[str], here: Path, tmp_path: Path
) -> None:
    """A randomly initialised recogniser: the scores are meaningless, but present."""
    folder = ctc_folder(tmp_path / "ctc")
    done = evaluate(*mustc, *SPEAKING, "recogniser=named", f"recogniser.name={folder}")
    assert done.code == 0, done.err
    (results,) = here.rglob("results.json")
    (row,) = json.loads(results.read_text())
    assert set(row["scores"]) >= {
        "ASR_BLEU",
        "ASR_chrF",
        "ASR_WER",
        "SpeechWER",
        "SpeechCER",
        "EndOffset_CA",
    }
    assert row["scores"]["ASR_WER"] > 10
    assert "|asr:ctc|" in row["signatures"]["ASR_BLEU"]
    assert any("word errors on clean speech" in flag for flag in row["flags"])
    assert str(tmp_path) not in json.dumps(row["signatures"])


def test_xtts_speaks_from_the_command_to_the_files(
    evaluate: Evaluate, mustc: list[str], here: Path, tmp_path: Path
) -> None:
    name, reference = weights(tmp_path / "weights")
    python = environment(tmp_path / "environment")
    given = [*mustc, "synthesizer=xtts", *SPEAKING[1:], "evaluation.recogniser=null"]
    given += [f"synthesizer.name={name}", f"synthesizer.reference={reference}"]
    refused = evaluate(*given, "synthesizer.python=nowhere")
    assert (refused.code, refused.out, calls(name)) == (2, "", [])
    assert "there is no file nowhere: run `make xtts`" in refused.err

    done = evaluate(*given, f"synthesizer.python={python}")
    assert done.code == 0, done.err
    process, voice, *spoken = calls(name)
    assert (process.split()[0], voice) == ("process", "voice voice.wav")
    lengths = [100.0 * len(line.removeprefix("de 0.75 ")) for line in spoken]  # in milliseconds
    (log,) = here.rglob("speech/instances.log")
    (stream,) = map(json.loads, log.read_text().splitlines())
    durations = [length for length in stream["durations"] if length]
    assert durations
    assert durations == pytest.approx(lengths[-len(durations) :])  # a warm-up has spoken before
    (speech_file,) = here.rglob("*.target.wav")
    assert abs(soundfile.read(speech_file)[0]).max() > 0.4


def test_scores_that_are_left_out_are_reported(
    evaluate: Evaluate, mustc: list[str], here: Path
) -> None:
    done = evaluate(*mustc, *SPEAKING, "evaluation.recogniser=null")
    assert done.code == 0, done.err
    note = "Target speech has no ASR scores: evaluation.recogniser is null."
    assert done.out.endswith(note + "\n")
    (page,) = here.rglob("report.html")
    assert note in page.read_text()
    (results,) = here.rglob("results.json")
    (row,) = json.loads(results.read_text())
    assert "ASR_BLEU" not in row["scores"]
    assert "DiscontinuitySum" in row["scores"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            ("recogniser=named", "recogniser.name=/nowhere/recogniser"),
            "No recogniser could be loaded from /nowhere/recogniser",
        ),
        (
            ("evaluation.utmos=/nowhere.pt",),
            "The file /nowhere.pt of evaluation.utmos does not exist",
        ),
    ],
)
def test_missing_recognisers_are_an_error_before_weights_load(
    given: tuple[str, ...], sentence: str, evaluate: Evaluate, mustc: list[str], here: Path
) -> None:
    result = evaluate(*mustc, *SPEAKING, *given, "backbone.checkpoint=/nowhere")
    assert (result.code, result.out) == (2, "")
    assert sentence in result.err
    assert list(here.iterdir()) == []


def test_no_recogniser_is_loaded_without_speech_output(
    evaluate: Evaluate, mustc: list[str]
) -> None:
    missing = (
        "recogniser=named",
        "recogniser.name=/nowhere/recogniser",
        "evaluation.utmos=/nowhere.pt",
    )
    assert evaluate(*mustc, *SPEAKING[1:], *missing).code == 0


def test_each_synthesizer_has_its_own_upper_bound() -> None:
    config = {
        "backbone": {"name": "x", "alignment": 1},
        "source_language": "en",
        "target_language": "de",
    }
    text_only, again, with_speech = (
        {**config, "synthesizer": part} for part in (None, None, {"rate": 165})
    )
    assert network_of(text_only) == network_of(again)
    assert network_of(text_only) != network_of(with_speech)
