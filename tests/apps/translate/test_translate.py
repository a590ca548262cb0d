"""Translations from the command line to files, with shipped models; Ctrl-C with a scripted one."""

import json
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from zoo.apps.translate import main as translate
from zoo.apps.translate.display import Display
from zoo.apps.translate.microphone import Receive
from zoo.apps.translate.output import TranslationFolder
from zoo.apps.translate.streams import TerminalTranslation
from zoo.base.audio import files as audio
from zoo.base.languages import language
from zoo.base.machine import launch
from zoo.base.talks import Talk
from zoo.base.types import SAMPLE_RATE, Action, Instance, SpeechChunk
from zoo.config import build, compose
from zoo.formats.logs import read_log
from zoo.formats.subtitles import srt, vtt
from zoo.runs.rows.row import KnobValue, read_rows

Start = Callable[..., int]
SECONDS = 4.0  # of speech
STREAMATT = ("system=streamatt", "speed=max")


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """``start("talk.wav", ...)`` translates in a folder with a talk and returns the exit code."""
    talk = build(compose("evaluate").data).talks("tst", limit=1)[0]
    (tmp_path / "a folder").mkdir()
    audio.write(tmp_path / "a folder" / "a=talk.wav", audio.load(talk.file, duration=SECONDS))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")

    def run(*given: str) -> int:
        launch.launch_name.cache_clear()
        monkeypatch.setattr(sys, "argv", ["translate", *given])
        try:
            translate()
        except SystemExit as left:
            return int(left.code or 0)
        return 0

    return run


def test_a_talk_becomes_text_subtitles_log_and_page(
    start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audio.write(tmp_path / "tenth.wav", torch.zeros(SAMPLE_RATE // 10))
    assert start("tenth.wav", *STREAMATT, "a folder", "hydra.run.dir=out", "latency=4") == 0
    out = tmp_path / "out"
    short, talk = read_log(out / "log" / "instances.log", language=language("de"))
    assert (short.talk, talk.talk) == ("tenth", "a=talk")
    assert talk.text
    assert (out / "a=talk.txt").read_text() == f"{talk.text}\n"
    assert (out / "a=talk.srt").read_text() == srt(talk)
    assert (out / "a=talk.vtt").read_text() == vtt(talk)
    page = (out / "report.html").read_text()
    assert "a=talk" in page
    assert "python -m zoo translate tenth.wav &#39;a folder&#39; system=streamatt" in page
    (row,) = read_rows(out / "results.json")
    assert (row.knob, row.settings.references) == (KnobValue("f", 4), False)
    assert {"StartOffset", "RTF"} <= set(row.scores)
    assert "BLEU" not in row.scores

    shown = capsys.readouterr().out
    assert "a=talk (0:04.0)" in shown
    for word in talk.units:
        assert word in shown
    assert "report:       out/report.html" in shown
    assert "latency: 4" in (out / "config.yaml").read_text()


def test_a_log_of_a_translation_is_replayed(start: Start, tmp_path: Path) -> None:
    assert start("a folder", *STREAMATT, "hydra.run.dir=out") == 0
    given = [
        "system=replay",
        f"system.log={tmp_path / 'out' / 'log' / 'instances.log'}",
        "data=recorded",
    ]
    (instance,) = build(compose("evaluate", given).system).instances()
    assert instance.talk == "a=talk"


def test_a_speaking_system_writes_its_speech(start: Start, tmp_path: Path) -> None:
    assert start("a folder/a=talk.wav", "system=simulu", "speed=max", "hydra.run.dir=out") == 0
    spoken = audio.load(tmp_path / "out" / "log" / "speech" / "a=talk.target.wav")
    assert spoken.abs().max() > 0
    assert audio.duration(tmp_path / "out" / "log" / "speech" / "a=talk.mix.wav") >= SECONDS


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((), "A translation needs something to translate"),
        (("missing.wav",), "There is no file or folder 'missing.wav'"),
        (("text.txt",), "is damaged"),
        (("a folder", "--microphone"), "either files or a microphone"),
        (("a folder", "target_language=xx"), "Unknown language 'xx'"),
        (("a folder", "nonsense=1"), "Unknown key 'nonsense'"),
        (("a folder", "policy=alignatt"), "which backbone InfiniSST does not expose"),
        (("a folder", "system=replay"), "A recorded log has nothing to translate"),
        (("a folder", "speed=0"), "speed must be"),
        (("a folder", "latency=2", "system.latency_multiplier=3"), "both set the latency of"),
        (("a folder", "latency=0"), "Knob m must be"),
        (("a folder", "latency=abc"), "Knob m must be a whole number of at least 1, not 'abc'"),
    ],
)
def test_wrong_input_is_a_sentence_and_leaves_no_files(
    start: Start,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    given: Sequence[str],
    words: str,
) -> None:
    (tmp_path / "text.txt").write_text("no audio")
    assert start(*given) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert words in err
    assert err.count("\n") == 1
    assert not (tmp_path / "outputs").exists()


class Script:
    """A system that emits the number of each chunk, and calls ``during`` in each step."""

    name = "script"
    target_language = language("de")
    source_language = language("en")
    chunk_samples = SAMPLE_RATE

    def __init__(self, during: Callable[[int], None]) -> None:
        self.during = during
        self.steps = 0

    def open(self, talk: str, **given: object) -> SimpleNamespace:
        return SimpleNamespace(source_ended=False)

    def step(
        self, sessions: Sequence[SimpleNamespace], chunks: Sequence[SpeechChunk]
    ) -> list[Action]:
        self.steps += 1
        self.during(self.steps)
        sessions[0].source_ended = chunks[0].final
        return [Action("1" if self.steps == 1 else f" {self.steps}")]


@pytest.fixture
def talks(tmp_path: Path) -> list[Talk]:
    audio.write(tmp_path / "talk.wav", torch.zeros(4 * SAMPLE_RATE))
    return [Talk(name, tmp_path / "talk.wav", 4.0, "en", ()) for name in ("one", "two")]


def translation(folder: Path, during: Callable[[int], None]) -> TerminalTranslation:
    system = Script(during)
    return TerminalTranslation(system, TranslationFolder(folder), Display(system.target_language))  # type: ignore[arg-type]


@pytest.mark.parametrize("of_files", [True, False])
def test_a_warm_up_streams_until_the_first_word_and_writes_nothing(
    tmp_path: Path, talks: list[Talk], capsys: pytest.CaptureFixture[str], of_files: bool
) -> None:
    steps: list[int] = []
    translation(tmp_path, steps.append).warm_up(talks if of_files else [])
    assert steps == [1]
    assert not (tmp_path / "log").exists()
    assert not capsys.readouterr().out


def test_the_first_stream_of_a_translation_is_a_warm_up(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    warmed: list[str] = []

    def noted(self: TerminalTranslation, talks: Sequence[Talk]) -> None:
        assert self._stream is None
        warmed.extend(talk.name for talk in talks)

    monkeypatch.setattr(TerminalTranslation, "warm_up", noted)
    assert start("a folder", *STREAMATT) == 0
    assert warmed == ["a=talk"]


def test_ctrl_c_ends_the_talk_with_its_last_words(tmp_path: Path, talks: list[Talk]) -> None:
    def during(step: int) -> None:
        found.stop.requested |= step == 2

    found = translation(tmp_path, during)
    found.of_files(talks, "max")
    (line,) = (tmp_path / "log" / "instances.log").read_text().splitlines()
    assert json.loads(line)["prediction"] == "1 2 3"
    assert (tmp_path / "one.txt").read_text() == "1 2 3\n"
    assert not (tmp_path / "two.txt").exists()


def test_a_second_ctrl_c_keeps_the_words_that_were_emitted(
    tmp_path: Path, talks: list[Talk]
) -> None:
    def during(step: int) -> None:
        if step == 3:
            raise KeyboardInterrupt

    found = translation(tmp_path, during)
    found.of_files(talks, "max")
    assert found.stop.requested
    assert (tmp_path / "one.txt").read_text() == "1 2\n"
    assert not (tmp_path / "two.txt").exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_sigterm_keeps_the_words_that_were_emitted(
    number: signal.Signals,
    code: int,
    tmp_path: Path,
    talks: list[Talk],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("zoo.apps.translate.live.leave_terminal", lambda number: None)

    def during(step: int) -> None:
        if step == 3:
            signal.raise_signal(number)

    at_start = signal.signal(number, signal.SIG_DFL)  # nohup ignores SIGHUP
    try:
        found = translation(tmp_path, during)
        found.of_files(talks, "max")
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, at_start)
    assert found.stop.requested
    assert found.stop.terminated
    assert found.stop.code == code
    assert (tmp_path / "one.txt").read_text() == "1 2\n"
    assert not (tmp_path / "two.txt").exists()


def test_a_signal_that_is_ignored_ends_nothing(tmp_path: Path, talks: list[Talk]) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        found = translation(tmp_path, lambda step: signal.raise_signal(signal.SIGHUP))
        found.of_files(talks, "max")
    finally:
        signal.signal(signal.SIGHUP, before)
    assert not found.stop.requested
    assert (tmp_path / "two.txt").exists()


def test_a_sigterm_waits_for_the_files_of_a_talk(
    tmp_path: Path, talks: list[Talk], monkeypatch: pytest.MonkeyPatch
) -> None:
    add = TranslationFolder.add

    def late(output: TranslationFolder, instance: Instance, talk: Talk) -> None:
        signal.raise_signal(signal.SIGTERM)
        add(output, instance, talk)

    monkeypatch.setattr(TranslationFolder, "add", late)
    found = translation(tmp_path, lambda step: None)
    found.of_files(talks, "max")
    assert found.stop.terminated
    assert (tmp_path / "one.srt").exists()
    assert not (tmp_path / "two.txt").exists()


def test_a_microphone_is_translated_and_recorded(tmp_path: Path) -> None:
    class Card:
        rate = SAMPLE_RATE

        @contextmanager
        def recording(self, receive: Receive) -> Iterator[None]:
            for _ in range(5):
                receive(np.full((SAMPLE_RATE // 2, 1), 0.5, np.float32), False)
            found.stop.requested = True
            yield

    found = translation(tmp_path, lambda step: None)
    found.of_microphone(Card())
    (instance,) = read_log(tmp_path / "log" / "instances.log", language=language("de"))
    assert (instance.talk, instance.text, instance.source_length) == ("microphone", "1 2 3", 2.5)
    assert instance.delays == (1.0, 2.0, 2.5)
    assert audio.duration(tmp_path / "microphone.wav") == 2.5
