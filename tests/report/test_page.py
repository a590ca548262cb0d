"""The page: self-contained, escaped, complete; if Chromium is installed, it runs without errors."""

import base64
import io
import json
import re
import shutil
from dataclasses import astuple, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from tests.fixtures.browser import browse
from tests.fixtures.segments import scored_segment
from zoo.base.errors import ZooError
from zoo.base.talks import Segment, Talk, Word
from zoo.base.types import ChunkTime, Instance, SpeechOutput, StreamEvent
from zoo.formats.speech import mix_file, write_speech
from zoo.report.contents import headline
from zoo.report.page import write_report
from zoo.report.palette import STYLES, places
from zoo.report.payload import lags, payload, units_per_segment
from zoo.report.render import json_block
from zoo.report.sounds import has_opus
from zoo.runs.rows.row import KnobValue, Row
from zoo.runs.rows.settings import RowSettings
from zoo.runs.rows.streams import ReportStream

HOSTILE = "</script><b>bold</b>&amp;"
CONTEXT = {"command": "python evaluate.py a=<b>", "git commit": "0123abc"}


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    rate, length = 16_000, 6.0
    tone = 0.1 * np.sin(2 * np.pi * 440 * np.arange(int(rate * (length + 1))) / rate)
    soundfile.write(tmp_path / "talk.wav", tone.astype(np.float32), rate)
    words = (Word("one", 0.5, 0.9), Word(HOSTILE, 1.0, 1.5), Word("three", 3.2, 3.8))
    segments = (
        Segment(0.5, 2.0, f"one {HOSTILE}", words[:2]),
        Segment(3.0, 2.0, "three", words[2:]),
    )
    return Talk("talk <1>", tmp_path / "talk.wav", length, "en", segments, offset=1.0)


def instance(
    *units: str, delays: tuple[float, ...], unit: str = "word", text: str | None = None
) -> Instance:
    elapsed = tuple(delay + 0.25 for delay in delays)
    text = " ".join(units) if text is None else text
    return Instance(0, "talk", 6.0, text, units, delays, elapsed, unit=unit)


def row(
    m: float | None = 2,
    *,
    kind: str = "system",
    flags: tuple[str, ...] = (),
    system: str = "infinisst",
    weights: str | None = None,
    **scores: float | None,
) -> Row:
    knob = None if m is None else KnobValue("m", m)
    scores = {"BLEU": 50.0, "StreamLAAL": 1.5, "StreamLAAL_CA": 1.75} | scores
    return Row(
        system,
        knob,
        "minitalks",
        "tst",
        "en",
        "de",
        scores,
        {"BLEU": "tok:13a"},
        "i",
        kind=kind,
        flags=flags,
        settings=RowSettings(weights={} if weights is None else {"backbone.name": weights}),
    )


@pytest.fixture
def stream(talk: Talk) -> ReportStream:
    hypothesis = instance("eins", "zwei", HOSTILE, "drei", delays=(2.0, 2.0, 4.0, 5.0))
    first = scored_segment(0.5, 2.0, f"one {HOSTILE}", "eins zwei", "eins zwei")
    return ReportStream(
        0, hypothesis, talk, (first, scored_segment(3.0, 2.0, "three", HOSTILE, f"{HOSTILE} drei"))
    )


class Page(HTMLParser):
    """Elements of the page, and the text of each script by id."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.source, self.tags, self.scripts, self.text = (
            path.read_text(encoding="utf-8"),
            [],
            {},
            "",
        )
        self._script: str | None = None
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self._script = dict(attrs).get("id") or "code"
            self.scripts[self._script] = ""

    def handle_endtag(self, tag: str) -> None:
        self._script = None if tag == "script" else self._script

    def handle_data(self, text: str) -> None:
        if self._script:
            self.scripts[self._script] += text
        else:
            self.text += text

    @property
    def data(self) -> dict[str, Any]:
        return json.loads(self.scripts["report-data"])


def write_page(path: Path, rows: list[Row], streams: list[ReportStream], **options: Any) -> Page:
    size = write_report(
        path, rows=rows, streams=streams, title="Minitalks <i>", context=CONTEXT, **options
    )
    assert path.stat().st_size == size
    assert [entry.name for entry in path.parent.iterdir() if "partial" in entry.name] == []
    return Page(path)


def test_page_is_self_contained_and_under_its_policy(tmp_path: Path, stream: ReportStream) -> None:
    page = write_page(tmp_path / "report.html", [row()], [stream])
    for tag, attributes in page.tags:
        assert "src" not in attributes, tag
        assert str(attributes.get("href", "#")).startswith(("#", "data:,")), tag
    assert set(re.findall(r"https?://[^\s\"']+", page.source)) <= {
        "http://www.w3.org/2000/svg"
    }  # a name, not a place
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|import\(", page.source)
    policy = next(
        a["content"] for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'")


def test_hostile_text_stays_text(tmp_path: Path, stream: ReportStream) -> None:
    page = write_page(tmp_path / "report.html", [row(flags=(HOSTILE,))], [stream])
    assert set(page.scripts) == {"audio-0", "report-data", "code"}
    assert page.data["streams"][0]["units"] == ["eins", "zwei", HOSTILE, "drei"]
    assert page.data["talks"][0]["words"][1] == [HOSTILE, 1.0, 1.5]
    assert sum(tag == "b" for tag, _ in page.tags) == 1  # the knob
    assert not any(tag == "i" for tag, _ in page.tags)
    assert "python evaluate.py a=<b>" in page.text
    assert "Minitalks <i>" in page.text
    assert json.loads(json_block({"a": HOSTILE + "\u2028"})) == {"a": HOSTILE + "\u2028"}
    assert not set("<>&\u2028") & set(json_block({"a": HOSTILE + "\u2028"}))


def test_table_shows_scores_kinds_and_reasons(tmp_path: Path) -> None:
    rows = [
        row(1, flags=("writes nothing before the end",)),
        row(None, system="infinisst offline", kind="ceiling", BLEU=60.0, StreamLAAL=None),
    ]
    page = write_page(tmp_path / "report.html", rows, [])
    assert "Flagged: writes nothing before the end" in page.text
    assert "whole segments, no latency" in page.text
    values = [attributes["data-value"] for tag, attributes in page.tags if tag == "td"]
    assert values[:3] == ["50.0", "", "1.5"]  # BLEU, chrF, StreamLAAL of the system
    assert values[6:9] == ["60.0", "", ""]
    assert "no system has a row with a BLEU score and without flags" in headline(rows)[0]
    assert "reaches 50.0 BLEU with a StreamLAAL of 1.50 s" in headline([row(3), rows[1]])[0]
    assert headline([row(3), rows[1]])[0].endswith("; offline, segment by segment, 60.0.")
    assert headline([row(3, StreamLAAL=None)]) == [
        "minitalks tst, en-de: infinisst at m=3 reaches 50.0 BLEU."
    ]


def test_the_headline_has_the_offline_row_of_the_best_system() -> None:
    ceilings = [
        row(None, system=f"{name} offline", kind="ceiling", weights=name, BLEU=bleu)
        for name, bleu in (("infinisst", 60.0), ("fw", 70.0))
    ]
    for system, weights, expected in (
        ("infinisst", "infinisst", "; offline, segment by segment, 60.0."),
        ("fw", "fw", "; offline, segment by segment, 70.0."),
        ("punctuation", "fw", "; offline, segment by segment, 70.0."),  # shares the row of fw
        ("agent", None, "(1.75 s computation-aware)."),
        ("other", "other", "(1.75 s computation-aware)."),
    ):
        [sentence] = headline([*ceilings, row(3, system=system, weights=weights)])
        assert sentence.endswith(expected)


def test_the_page_s_table_and_axes_have_speech_where_it_was_scored(tmp_path: Path) -> None:
    speech_row = row(4, ASR_BLEU=40.0, StartOffset=1.25, StartOffset_CA=1.5, SpeechOverlap=10.0)
    page = write_page(tmp_path / "report.html", [speech_row, row(2)], [])
    heads = [a["data-score"] for tag, a in page.tags if tag == "button" and a.get("data-score")]
    assert heads[:7] == [
        "BLEU",
        "chrF",
        "ASR_BLEU",
        "StreamLAAL",
        "StreamLAAL_CA",
        "LongYAAL",
        "StartOffset",
    ]
    assert page.data["axes"] == {
        "quality": ["BLEU", "ASR_BLEU"],
        "latency": ["StreamLAAL", "StartOffset"],
    }
    assert "ASR_BLEU" not in write_page(tmp_path / "text.html", [row()], []).text


def test_an_oracle_s_ellipses_are_explained(tmp_path: Path) -> None:
    sentence = "… replaces a word that depends on later source words"
    assert sentence in write_page(tmp_path / "with.html", [row(), row(3, kind="oracle")], []).text
    assert sentence not in write_page(tmp_path / "without.html", [row()], []).text


def test_audio_is_the_talk_s_part_of_its_file_and_small(
    tmp_path: Path, stream: ReportStream
) -> None:
    page = write_page(tmp_path / "report.html", [row()], [stream])
    packed = base64.b64decode(page.scripts["audio-0"])
    samples, rate = soundfile.read(io.BytesIO(packed))
    assert rate == 16_000
    assert abs(len(samples) / rate - 6.0) < 0.2  # the file has 7 s; MP3 pads
    assert np.abs(samples).max() > 0.05
    assert len(packed) < 6.3 * 24_000 / 8


def test_the_page_stays_under_its_size_limit_and_notes_omissions(
    tmp_path: Path, stream: ReportStream
) -> None:
    other = replace(stream, talk=replace(stream.talk, name="second"))
    bare = write_page(tmp_path / "bare.html", [row()], [stream, other], audio_talks=0)
    assert [talk["audio"] for talk in bare.data["talks"]] == [False, False]
    size = (tmp_path / "bare.html").stat().st_size
    limited = write_page(
        tmp_path / "limited.html", [row()], [stream, other], max_bytes=size + 30_000
    )
    assert [talk["audio"] for talk in limited.data["talks"]] == [True, False]
    assert (tmp_path / "limited.html").stat().st_size <= size + 30_000
    assert "audio-1" not in limited.scripts
    one = write_page(tmp_path / "one.html", [row()], [stream, other], audio_talks=1)
    assert [talk["audio"] for talk in one.data["talks"]] == [True, False]


def test_the_page_states_which_talks_are_noisy(tmp_path: Path, stream: ReportStream) -> None:
    page = write_page(tmp_path / "report.html", [row()], [stream])
    # the tone is as loud between the segments as in them: 2 s of 6 s, less the margins and the end
    (found,) = page.data["talks"]
    assert found["noisy"]
    assert re.match(r"1\.[0-9] s \([0-9]+ %\) of loud sound", found["background"])
    bare = replace(stream, talk=replace(stream.talk, audio=None))
    (silent,) = write_page(tmp_path / "bare.html", [row()], [bare]).data["talks"]
    assert (silent["noisy"], silent["background"]) == (False, None)


def test_missing_audio_is_a_sentence_and_leaves_no_page(
    tmp_path: Path, stream: ReportStream
) -> None:
    lost = replace(stream, talk=replace(stream.talk, audio=tmp_path / "lost.wav"))
    with pytest.raises(ZooError, match="lost"):
        write_page(tmp_path / "report.html", [row()], [lost])
    assert not (tmp_path / "report.html").exists()


def test_lag_is_the_delay_behind_an_even_pace(stream: ReportStream) -> None:
    # segment 1: 2 s for 2 units, due at 0.5 and 1.5; segment 2: 2 s for max(2 emitted,
    # 1 reference), due at 3 and 4
    assert lags(stream) == pytest.approx([1.5, 0.5, 1.0, 1.0])


def test_units_that_are_not_the_hypotheses_get_no_lag(stream: ReportStream) -> None:
    lost = replace(stream, segments=stream.segments[:1])
    assert units_per_segment(lost) is None
    assert lags(lost) == [None] * 4
    encoded = payload([row()], [lost])["streams"][0]
    assert (encoded["marks"], encoded["hypotheses"]) == (["=="], ["eins zwei"])


def test_characters_keep_the_gaps_of_foreign_words(talk: Talk) -> None:
    characters = tuple("你好JoZhou")
    hypothesis = instance(*characters, delays=(2.0,) * 8, unit="char", text="你好 Jo Zhou")
    segments = (
        scored_segment(0.5, 2.0, "s", "你好", "你好Jo Zhou"),
        scored_segment(3.0, 2.0, "t", "", ""),
    )
    encoded = payload([row()], [ReportStream(0, hypothesis, talk, segments)])["streams"][0]
    assert "".join(encoded["units"]) == "你好 Jo Zhou"
    assert (encoded["marks"], encoded["separator"]) == (["==++++++", ""], "")


def test_payload_stores_talks_and_emissions_once(stream: ReportStream) -> None:
    data = payload([row(1), row(2)], [stream, replace(stream, row=1)])
    assert (len(data["talks"]), len(data["references"]), len(data["streams"])) == (1, 1, 2)
    assert data["streams"][0]["emissions"] == [[2, 2.0, 2.25], [1, 4.0, 4.25], [1, 5.0, 5.25]]
    assert data["axes"] == {"quality": ["BLEU"], "latency": ["StreamLAAL"]}


def with_events(stream: ReportStream) -> ReportStream:
    """Units of chunks 1, 3 and 4; a transcript that no unit follows, and a truncation."""
    chunks = tuple(ChunkTime(1.0 + chunk, 0.25) for chunk in range(5))
    events = (
        StreamEvent("transcript", 1.0, chunk=0, text="unseen"),
        StreamEvent("transcript", 1.9, chunk=1, text="one"),
        StreamEvent("transcript", 2.9, chunk=2, text=HOSTILE),
        StreamEvent("truncation", 2.5, chunk=3, reason="sentence", tokens=2, frames=7),
        StreamEvent("no_output", 3.0, chunk=4, reason="10 s of speech"),
        StreamEvent("unit_limit", 2.5, chunk=4),
    )
    hypothesis = replace(stream.instance, chunks=chunks, chunk_indices=(1, 1, 3, 4), events=events)
    return replace(stream, instance=hypothesis)


def test_events_are_shown_where_a_unit_was_emitted(stream: ReportStream) -> None:
    assert payload([row()], [stream])["streams"][0]["events"] == []
    assert payload([row()], [with_events(stream)])["streams"][0]["events"] == [
        [2.0, "transcript", 1.9, "one"],
        [3.0, "transcript", 2.9, HOSTILE],
        [4.0, "truncation", 2.5, "truncation (sentence): 2 tokens and 7 frames dropped"],
        [5.0, "no_output", 3.0, "no output during 10 s of speech"],
        [
            5.0,
            "unit_limit",
            2.5,
            "units stopped at the maximum length: the speech may be incomplete",
        ],
    ]


def test_a_talk_of_nothing_and_no_rows_are_legal(tmp_path: Path, talk: Talk) -> None:
    silent = ReportStream(0, instance(delays=()), talk)
    assert write_page(tmp_path / "report.html", [row()], [silent]).data["streams"][0]["units"] == []
    assert write_page(tmp_path / "report.html", [], []).data["rows"] == []


@pytest.fixture
def speech_stream(stream: ReportStream) -> ReportStream:
    """The second piece waits for the first and goes on after the talk."""
    speech = (
        SpeechOutput(torch.ones(48_000), 2.0, 2.25, 0, f"eins zwei {HOSTILE}"),
        SpeechOutput(torch.ones(24_000), 4.75, 9.0, 1, "drei"),
    )
    return replace(stream, instance=replace(stream.instance, talk="talk <1>", speech=speech))


def test_target_speech_is_played_from_files_next_to_the_page(
    tmp_path: Path, speech_stream: ReportStream
) -> None:
    row_with_speech = replace(row(), instances="instances/00-simulu f2/instances.log")
    page = write_page(tmp_path / "report.html", [row_with_speech], [speech_stream])
    folder = "instances/00-simulu%20f2/speech/"  # addresses: the file's own % is escaped, too
    assert page.data["streams"][0]["speech"] == {
        "target": f"{folder}talk%20%253C1%253E.target.wav",
        "both": f"{folder}talk%20%253C1%253E.mix.wav",
        "pieces": [[2.0, 3.0, 2.25, f"eins zwei {HOSTILE}"], [5.0, 1.5, 9.0, "drei"]],
    }
    without_audio = replace(speech_stream, talk=replace(speech_stream.talk, audio=None))
    assert payload([row_with_speech], [without_audio])["streams"][0]["speech"]["both"] is None


@pytest.mark.parametrize("opus", [True, False])
def test_a_page_alone_has_the_target_speech(
    tmp_path: Path, speech_stream: ReportStream, monkeypatch: pytest.MonkeyPatch, opus: bool
) -> None:
    if opus and not has_opus():
        pytest.skip("this libsndfile has no Opus")
    monkeypatch.setattr("zoo.report.sounds.has_opus", lambda: opus)
    log = tmp_path / "instances" / "00" / "instances.log"
    log.parent.mkdir(parents=True)
    write_speech(log.parent, [speech_stream.instance], [speech_stream.talk])
    speech_row = replace(row(), instances="instances/00/instances.log")
    page = write_page(tmp_path / "report.html", [speech_row], [speech_stream])
    samples, _ = soundfile.read(io.BytesIO(base64.b64decode(page.scripts["speech-0"])))
    assert abs(len(samples) / 16_000 - 6.5) < 0.2  # the last piece ends at 6.5 s
    (kind,) = [a["data-type"] for tag, a in page.tags if a.get("id") == "speech-0"]
    assert kind == ("audio/ogg" if opus else "audio/mpeg")
    small = write_page(
        tmp_path / "small.html", [speech_row], [speech_stream], max_bytes=len(page.source) - 1000
    )
    assert "speech-0" not in small.scripts
    assert "audio-0" in small.scripts


def test_segments_have_marks_and_missing_reference_words(stream: ReportStream) -> None:
    first = replace(stream.segments[0], reference="eins und zwei")
    encoded = payload([row()], [replace(stream, segments=(first, stream.segments[1]))])
    (found,) = encoded["streams"]
    assert found["marks"] == ["==", "=+"]
    assert found["missing"] == [[1, 1], []]  # before unit 1: word 1 of the reference
    assert encoded["references"][found["references"]][0] == "eins und zwei"


def test_systems_that_receive_reference_segments_are_apart(tmp_path: Path) -> None:
    informed = replace(
        row(4, BLEU=90.0), system="alignatt", settings=RowSettings(reference_segments=True)
    )
    sentences = replace(row(4, BLEU=91.0), system="edatt", settings=RowSettings(view="segments"))
    page = write_page(tmp_path / "report.html", [row(), informed, sentences], [])
    assert [entry["segmented"] for entry in page.data["rows"]] == [False, True, True]
    bodies = [attributes["class"] for tag, attributes in page.tags if tag == "tbody"]
    assert bodies == ["system", "segmented"]
    assert page.text.count("receives the reference segments") == 2
    assert "infinisst at m=2 reaches 50.0" in headline([row(), informed, sentences])[0]
    assert "edatt at m=4 reaches 91.0" in headline([informed, sentences])[0]


def test_the_page_has_a_bar_per_row_with_measured_stages(tmp_path: Path) -> None:
    measured = replace(row(), stages={"encoder": 0.1})
    page = write_page(tmp_path / "report.html", [measured, row(4)], [])
    bars = [attributes for tag, attributes in page.tags if tag == "li"]
    assert [bar["data-row"] for bar in bars] == ["0"]


def test_intervals_are_in_the_table_and_for_the_chart(tmp_path: Path) -> None:
    tested = replace(row(), intervals={"BLEU": (48.0, 52.5)}, settings=RowSettings(resamples=1000))
    page = write_page(tmp_path / "report.html", [tested, row(3)], [])
    assert [entry["intervals"] for entry in page.data["rows"]] == [{"BLEU": [48.0, 52.5]}, {}]
    assert "50.0±2.2" in page.text  # one above the other
    assert "± 95 % interval (1000 resamples of the segments)" in page.text


def test_each_of_twelve_systems_has_a_colour_and_a_marker_of_its_own(tmp_path: Path) -> None:
    for names in zip(*map(astuple, STYLES), strict=True):
        assert len(set(names)) == 12
    pairs = [places(place) for place in range(36)]
    assert pairs[:12] == [(place, place) for place in range(12)]
    assert len(set(pairs)) == 36
    light, dark = re.findall(
        r":root \{ (--series-0: [^}]*)\}", write_page(tmp_path / "report.html", [], []).source
    )
    assert re.findall("#[0-9a-f]{6}", light) == [style.light for style in STYLES]
    assert re.findall("#[0-9a-f]{6}", dark) == [style.dark for style in STYLES]


def test_a_text_row_has_no_speech(stream: ReportStream) -> None:
    assert payload([row()], [stream])["streams"][0]["speech"] is None


PROBE = """<script>
addEventListener("error", (event) => document.body.setAttribute("data-failed", event.message));
addEventListener("load", () => {
  const press = (query) => document.querySelector(query).click();
  press('input[name="mode"][value="aware"]');
  press('input[name="clock"][value="aware"]');
  press('.scores thead button[data-score="BLEU"]');
  press("#in");
  press("#timeline .word");
  document.querySelectorAll("#timeline .word")[2].dispatchEvent(new PointerEvent("pointermove"));
  document.body.setAttribute("data-reason", document.querySelector("#tip").lastChild.textContent);
  document.querySelector("#timeline").dispatchEvent(new KeyboardEvent("keydown", { key: "End" }));
  document.body.setAttribute("data-probed", document.querySelectorAll(".point").length);
});
</script>"""


def test_page_runs_in_a_browser(tmp_path: Path, stream: ReportStream) -> None:
    path = tmp_path / "report.html"
    write_page(
        path,
        [row(1), row(2), row(None, kind="ceiling", BLEU=60.0, StreamLAAL=None)],
        [with_events(stream)],
    )
    dom = browse(path, PROBE)
    assert 'data-probed="2"' in dom
    assert "StreamLAAL_CA, seconds" in dom
    assert len(re.findall('<span class="word lag-[0-4]', dom)) == 4
    assert "0:06 / 0:06" in dom
    assert len(re.findall('<span class="drop truncation', dom)) == 1
    assert 'data-reason="truncation (sentence): 2 tokens and 7 frames dropped"' in dom
    assert '<fieldset class="switch" id="sound" hidden="">' in dom
    assert 'class="piece' not in dom


TARGETS = ("target", "both")  # what plays target speech
SPEECH_SCRIPT = """<script>
addEventListener("error", (event) => document.body.setAttribute("data-failed", event.message));
addEventListener("securitypolicyviolation", (event) =>
  document.body.setAttribute("data-refused", event.blockedURI));
addEventListener("load", async () => {
  const played = [];
  const note = () => document.querySelector("#sound-note").textContent;
  document.querySelector("#timeline .piece").click();
  for (const side of ["source", "target", "both"]) {
    document.querySelector(`input[name="sound"][value="${side}"]`).click();
    await new Promise((done) => setTimeout(done, 300));
    const time = document.querySelector("#time").textContent;
    played.push(`${side} ${time} ${note() ? "missing" : "ready"}`);
  }
  document.body.setAttribute("data-played", played.join(", "));
});
</script>"""


def test_speech_is_played_and_drawn_in_a_browser(
    tmp_path: Path, speech_stream: ReportStream
) -> None:
    path = tmp_path / "report.html"
    row_with_speech = replace(row(), instances="instances/00-simulu f2/instances.log")
    write_page(path, [row_with_speech], [speech_stream])
    log = tmp_path / row_with_speech.instances
    log.parent.mkdir(parents=True)
    write_speech(log.parent, [speech_stream.instance], [speech_stream.talk])
    (log.parent / mix_file("talk <1>")).unlink()  # the page plays source and target itself
    dom = browse(path, SPEECH_SCRIPT)
    # A click on the first piece goes to 2.25 s, its elapsed time, and the position is kept. The
    # last piece ends at 10.5 s.
    played = [f"{side} 0:02 / 0:10 ready" for side in ("source", *TARGETS)]
    assert f'data-played="{", ".join(played)}"' in dom
    assert len(re.findall('<span class="piece', dom)) == 2


def test_a_missing_file_of_target_speech_is_named(
    tmp_path: Path, speech_stream: ReportStream
) -> None:
    path = tmp_path / "report.html"
    write_page(path, [replace(row(), instances="instances/00/instances.log")], [speech_stream])
    dom = browse(path, SPEECH_SCRIPT)
    played = ["source 0:02 / 0:10 ready", *(f"{one} 0:02 / 0:10 missing" for one in TARGETS)]
    assert f'data-played="{", ".join(played)}"' in dom
    assert "instances/00/speech/talk %3C1%3E.target.wav cannot be played" in dom


BEHIND_SCRIPT = """<script>
addEventListener("error", (event) => document.body.setAttribute("data-failed", event.message));
addEventListener("load", () => {
  const line = () => document.querySelector("#behind .behind");
  const drawn = () => line()?.getAttribute("d").split("L").length;
  const lines = [drawn()];
  document.querySelector('input[name="clock"][value="ideal"]').click();
  lines.push(drawn());
  document.querySelector('input[name="clock"][value="aware"]').click();
  document.querySelector("#behind svg").dispatchEvent(new PointerEvent("pointermove"));
  document.body.setAttribute("data-lines", lines.join(" "));
  document.body.setAttribute("data-tip", document.querySelector("#tip").textContent);
});
</script>"""


def test_how_far_speech_is_behind_is_drawn_in_a_browser(
    tmp_path: Path, speech_stream: ReportStream
) -> None:
    spoken = (
        replace(scored_segment(0.5, 2.0, "one", "eins", "eins"), delays=(3.5,), elapsed=(4.0,)),
        replace(scored_segment(3.0, 2.0, "three", "drei", "drei"), delays=(1.0, 4.25)),
    )
    spoken_stream = replace(speech_stream, spoken=spoken)
    page = write_page(tmp_path / "report.html", [row()], [spoken_stream])
    # Source ends at 2.5 and 5 s; playback of the last words at 4 and 7.25 s.
    assert page.data["streams"][0]["behind"] == [[2.5, 1.5, 2.0], [5.0, 2.25, None]]
    dom = browse(tmp_path / "report.html", BEHIND_SCRIPT)
    assert 'data-lines="1 2"' in dom
    assert "2.00 s behindsource until 2.50 s, its translation played until 4.50 s" in dom
    write_page(tmp_path / "text.html", [row()], [speech_stream])
    assert 'class="behind"' not in browse(tmp_path / "text.html", "")


def test_speech_inside_the_page_is_played_in_a_browser(
    tmp_path: Path, speech_stream: ReportStream
) -> None:
    speech_row = replace(row(), instances="instances/00/instances.log")
    log = tmp_path / speech_row.instances
    log.parent.mkdir(parents=True)
    write_speech(log.parent, [speech_stream.instance], [speech_stream.talk])
    path = tmp_path / "report.html"
    write_page(path, [speech_row], [speech_stream])
    shutil.rmtree(tmp_path / "instances")
    dom = browse(path, SPEECH_SCRIPT)
    played = [f"{side} 0:02 / 0:10 ready" for side in ("source", *TARGETS)]
    assert f'data-played="{", ".join(played)}"' in dom


SEGMENTS_SCRIPT = """<script>
addEventListener("error", (event) => document.body.setAttribute("data-failed", event.message));
addEventListener("load", () => {
  const found = [];
  const all = (query) => [...document.querySelectorAll(query)];
  const note = (name) => {
    const shown = all("#segment-list .segment").map((segment) => segment.querySelector("small")
      .textContent.split(",")[0]);
    found.push(`${name}: ${shown.join(" ")}`);
  };
  const change = (id, value, event) => {
    document.getElementById(id).value = value;
    document.getElementById(id).dispatchEvent(new Event(event));
  };
  scrollTo(0, document.body.scrollHeight);
  dispatchEvent(new Event("scroll"));
  note("drawn");
  change("segment-sort", "other 1", "change");
  note("second worse");
  change("segment-search", "DREI", "input");
  note("search");
  change("segment-search", "", "input");
  all("#segment-list [data-unit]")[0].click();
  const names = all("#segment-rows label").map((label) => label.textContent);
  found.push(`choices: ${names.join(", ")}`);
  all("#filters details")[0].querySelectorAll("input")[0].click();
  found.push(`rows: ${all(".scores tr[data-row]:not([hidden])").length}`);
  found.push(`points: ${all(".point").length}`);
  found.push(`kept: ${all("#segment-rows label").map((label) => label.textContent).join(", ")}`);
  const marks = all("#segment-list .unit").map((unit) => unit.classList[1]);
  found.push(`marks: ${marks.join(" ")}`);
  all("#filters .choice-all button").forEach((button) => button.click());
  found.push(`none: ${all(".scores tr[data-row]:not([hidden])").length}`);
  document.body.setAttribute("data-found", found.join("; "));
});
</script>"""


def test_segments_are_compared_sorted_searched_and_filtered_in_a_browser(
    tmp_path: Path, stream: ReportStream
) -> None:
    worse = (
        replace(stream.segments[0], reference="eins und zwei"),
        replace(stream.segments[1], hypothesis=f"{HOSTILE} drei", reference="vier"),
    )
    other = replace(row(5, BLEU=40.0), system="streamuni")
    streams = [stream, replace(stream, row=1, segments=worse)]
    path = tmp_path / "report.html"
    third = replace(row(7, BLEU=30.0), system="wait_k")
    write_page(path, [row(), other, third], streams)
    dom = browse(path, SEGMENTS_SCRIPT)
    assert re.findall('data-found="([^"]*)"', dom)[0].split("; ") == [
        "drawn: segment 1 segment 2",
        "second worse: segment 2 segment 1",
        "search: segment 2",
        "choices: infinisst m=2, streamuni m=5",
        "rows: 2",
        "points: 2",
        "kept: streamuni m=5",
        "marks: right missing right added wrong",
        "none: 0",
    ]
    assert "No segment matches." in dom


LABELS_SCRIPT = """<script>
addEventListener("error", (event) => document.body.setAttribute("data-failed", event.message));
addEventListener("load", () => {
  const boxes = [...document.querySelectorAll("#chart .point text")]
    .map((label) => label.getBoundingClientRect());
  const beside = (a, b) => a.right <= b.left + 1 || a.bottom <= b.top + 1;
  const apart = (a, b) => beside(a, b) || beside(b, a);
  const pairs = boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) => !apart(a, b)));
  document.body.setAttribute("data-labels", boxes.length);
  document.body.setAttribute("data-overlaps", pairs.length);
});
</script>"""


def test_labels_of_near_points_do_not_cover_each_other_in_a_browser(tmp_path: Path) -> None:
    rows = [
        replace(row(m, BLEU=50.0 + m / 10, StreamLAAL=1.0 + place / 100), system=f"system {place}")
        for place in range(12)
        for m in (1, 2, 3)
    ]
    path = tmp_path / "report.html"
    write_page(path, rows, [])
    dom = browse(path, LABELS_SCRIPT)
    assert 'data-overlaps="0"' in dom
    assert int(re.findall('data-labels="([0-9]+)"', dom)[0]) >= 3


def ten_hours() -> ReportStream:
    """A stream of ten hours with two target words per second, as one talk of 7200 segments."""
    seconds, length = 36_000, 5
    times = [place / 2 for place in range(1, 2 * seconds + 1)]
    units = [f"wort{place % 977}" for place in range(len(times))]
    delays = tuple(min(time + 1.5 + abs(time % 14 - 7) / 5, seconds) for time in times)
    events = tuple(StreamEvent("cut", time, tokens=4, frames=50) for time in range(0, seconds, 5))
    chunks = tuple(ChunkTime(float(end), 0.0) for end in range(1, seconds + 1))
    hypothesis = replace(
        instance(*units, delays=delays, text=" ".join(units)),
        source_length=float(seconds),
        chunks=chunks,
        chunk_indices=tuple(min(int(delay), seconds - 1) for delay in delays),
        events=tuple(replace(event, chunk=int(event.at)) for event in events),
    )
    spoken = [Word(f"word{place % 991}", place / 2, place / 2 + 0.4) for place in range(len(times))]
    segments = tuple(
        Segment(begin, length, "source", tuple(spoken[2 * begin : 2 * (begin + length)]))
        for begin in range(0, seconds, length)
    )
    texts = [
        " ".join(units[2 * begin : 2 * (begin + length)]) for begin in range(0, seconds, length)
    ]
    reported = tuple(
        scored_segment(segment.offset, length, "source", text, text)
        for segment, text in zip(segments, texts, strict=True)
    )
    return ReportStream(0, hypothesis, Talk("long", None, seconds, "en", segments), reported)


SIZES_SCRIPT = """<script>
addEventListener("error", (event) => document.body.setAttribute("data-failed", event.message));
addEventListener("load", () => {
  const dots = [...document.querySelectorAll("#overview .dots")];
  document.body.setAttribute("data-elements", document.querySelectorAll("*").length);
  document.body.setAttribute("data-dots", dots.map((path) => path.getAttribute("d")).join("")
    .split("M").length - 1);
  document.querySelector("#timeline").dispatchEvent(new KeyboardEvent("keydown", { key: "End" }));
  document.querySelector("#timeline").dispatchEvent(
    new KeyboardEvent("keydown", { key: "ArrowLeft" }));
  document.body.setAttribute("data-scrolled", document.querySelectorAll("*").length);
  document.body.setAttribute("data-caption", document.querySelector(".panel-text").textContent);
  document.body.setAttribute("data-announced", document.querySelector("#announcement").textContent);
});
</script>"""


def test_the_page_of_ten_hours_draws_only_what_is_near(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    stream = ten_hours()
    page = write_page(path, [row()], [stream])
    assert len(page.source) < 10_000_000  # bytes, of 144,000 words and their times
    dom = browse(path, SIZES_SCRIPT)
    sizes = dict(re.findall('data-(elements|dots|scrolled)="([0-9]+)"', dom))
    assert 200 < int(sizes["elements"]) < 3000
    assert 0 < int(sizes["dots"]) < 36_000
    assert 200 < int(sizes["scrolled"]) < 3000
    last = max(stream.instance.elapsed)
    before = [
        unit
        for unit, elapsed in zip(stream.instance.units, stream.instance.elapsed, strict=True)
        if elapsed < last
    ]
    (caption,) = re.findall('data-caption="([^"]*)"', dom)
    assert caption.split()[-5:] == before[-5:]  # at the word of the left arrow
    assert 20 < len(caption.split()) < 200
    assert f's: {before[-1]}"' in dom
