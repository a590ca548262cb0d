"""The page in a browser: what a person sees and hears, and what goes wrong."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from tests.apps.live import site
from tests.apps.live.conftest import Echo
from tests.apps.live.site import Site
from tests.fixtures.browser import running_browser
from zoo.apps.live.hub import Hub
from zoo.apps.live.settings import Limits
from zoo.apps.live.work import load_systems
from zoo.base.audio import files as audio
from zoo.base.languages import language
from zoo.base.talks import Talk, without_references
from zoo.base.types import SAMPLE_RATE, Action, StreamEvent
from zoo.config import build, compose
from zoo.data.minitalks import corpus
from zoo.formats.logs import read_log
from zoo.metrics.longform import score_talks
from zoo.metrics.references import ReferenceSegment
from zoo.systems.base import StreamingSystem

SEGMENTS = 4  # of the talk
LATE = 0.5  # seconds that a word may take from the server to the page


@pytest.fixture(scope="module")
def talk() -> Talk:
    """The first sentences of a talk."""
    (whole,) = corpus.build("tst", talks=1)
    segments = whole.segments[:SEGMENTS]
    return replace(whole, duration=whole.segments[SEGMENTS].offset, segments=segments)


@pytest.fixture(scope="module")
def systems() -> dict[str, list[StreamingSystem]]:
    """InfiniSST at two latencies and SimulU, loaded as a server loads them."""
    slow, fast = (build(compose("live").system) for _ in range(2))
    fast.turn_knob(1)
    simulu = build(compose("live", ["system=simulu"]).system)
    found = {"infinisst": [slow, fast], "simulu": [simulu]}
    for of_name in found.values():
        load_systems(of_name, torch.device("cpu"))
    return found


@pytest.fixture(scope="module")
def real(
    systems: dict[str, list[StreamingSystem]], talk: Talk, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """A server of the shipped systems."""
    folder = tmp_path_factory.mktemp("real")
    with site.serving(Hub(systems, limits=Limits(), folder=folder, talks=[talk])) as served:
        yield served


@pytest.fixture(scope="module")
def recording(talk: Talk, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The audio of the talk, and a second of silence."""
    path = tmp_path_factory.mktemp("recording") / "talk.wav"
    samples = audio.load(talk.file, duration=talk.duration)
    audio.write(path, torch.cat([samples, torch.zeros(SAMPLE_RATE)]))
    return path


@pytest.fixture(scope="module")
def browser(recording: Path) -> Iterator[Any]:
    """A browser whose microphone hears the recording once."""
    with running_browser(f"--use-file-for-fake-audio-capture={recording}%noloop") as started:
        yield started


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    with browser.new_context(permissions=["microphone"]) as context:
        yield context.new_page()


@pytest.fixture(scope="module")
def echoes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server of systems that echo, and of two talks."""
    with site.serving(echo_hub(tmp_path_factory.mktemp("echoes"))) as served:
        yield served


class Transcriber(Echo):
    """Writes a further line of a transcript after each chunk, too."""

    lines = 0

    def step(self, sessions: Any, chunks: Any) -> list[Action]:
        self.lines += 1
        text = "\n".join(f"line {number}" for number in range(self.lines))
        event = StreamEvent("transcript", 0.0, text=text)
        return [replace(action, events=(event,)) for action in super().step(sessions, chunks)]


def echo_hub(folder: Path, **limits: Any) -> Hub:
    """Systems that echo, and two talks: of a second, and of half a minute."""
    talks = []
    for name, seconds in (("short", 1.0), ("long", 30.0)):
        path = folder / f"{name}.wav"
        audio.write(path, torch.full((round(seconds * SAMPLE_RATE),), 0.2))
        talks.append(without_references(name, path, seconds, "en"))
    echoes = {"echo": [Echo(2), Echo(1)], "another": [Transcriber()], "chinese": [Echo()]}
    echoes["chinese"][0].target_language = language("zh")
    systems = {name: cast("list[StreamingSystem]", one) for name, one in echoes.items()}
    return Hub(systems, limits=Limits(**limits), folder=folder, talks=talks)


def test_words_of_the_microphone_are_those_of_what_it_hears(
    page: Any,
    real: Site,
    systems: dict[str, list[StreamingSystem]],
    recording: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, heard = real.hub.engine, []
    receive = engine.receive

    def keep(served: Any, samples: torch.Tensor, *, final: bool = False) -> None:
        heard.append(samples)
        receive(served, samples, final=final)

    monkeypatch.setattr(engine, "receive", keep)
    site.load(page, real.address)
    page.click("#start")
    site.wait_for_status(page, "Translating.")
    page.wait_for_timeout(1000 * audio.duration(recording))
    page.click("#stop")
    site.wait_for_status(page, "Done.")
    samples = torch.cat(heard)
    expected = systems["infinisst"][0].translate(samples, sample_rate=SAMPLE_RATE)
    assert site.text(page) == expected.text.strip()
    delays = [delay for _, delay, _ in site.words(page)]
    assert delays == pytest.approx(sorted({word.delay for word in expected.words}), abs=1e-3)
    assert correlation(samples, audio.load(recording)) > 0.3  # a busy machine loses pieces


def correlation(one: torch.Tensor, other: torch.Tensor) -> float:
    """The highest correlation of two recordings at any distance in time."""
    size = len(one) + len(other)
    spectra = [torch.fft.rfft(samples, size) for samples in (one, other)]
    products = torch.fft.irfft(spectra[0] * spectra[1].conj())
    return float(products.max() / (one.norm() * other.norm()))


def test_two_systems_translate_a_talk_beside_each_other(
    page: Any, real: Site, systems: dict[str, list[StreamingSystem]], talk: Talk, tmp_path: Path
) -> None:
    page.add_init_script(site.CAPTURE)
    page.add_init_script(site.CLOCK)
    site.load(page, real.address)
    page.select_option("#system-0", label="infinisst")
    page.select_option("#latency-0", label="m = 1")
    before = set(real.hub._folder.iterdir())
    page.select_option("#system-1", label="simulu")
    page.select_option("#source", f"talk:{talk.name}")
    page.click("#start")
    page.wait_for_selector(".scores:visible")  # before the end
    site.wait_for_status(page, "Done.")

    chosen = [systems["infinisst"][1], systems["simulu"][0]]
    folders = sorted(set(real.hub._folder.iterdir()) - before)
    evaluated = [system.translate(talk) for system in chosen]
    for place, expected in enumerate(evaluated):
        assert site.text(page, place) == expected.text.strip()
        delays = [delay for _, delay, _ in site.words(page, place)]
        assert delays == pytest.approx(sorted({word.delay for word in expected.words}), abs=1e-3)
    assert all(shown - elapsed < LATE for elapsed, shown in page.evaluate("window.shown"))

    logs = [read_log(folder / "instances.log", language=language("de")) for folder in folders]
    for place, (instance,) in enumerate(logs):
        assert instance.talk == talk.name
        references = [ReferenceSegment.of(one, target="de", talk="") for one in talk.segments]
        scores = score_talks([instance], [references], language=language("de")).scores
        assert page.locator(".scores").nth(place).text_content() == (
            f"StreamLAAL {scores['StreamLAAL'].value:.2f} s, computation-aware "
            f"{scores['StreamLAAL_CA'].value:.2f} s ({SEGMENTS} segments)"
        )
    check_speech(page, logs[1][0].speech, evaluated[1].instance.speech)

    (downloaded,) = read_log(site.download(page, "Log", tmp_path), language=language("de"))
    assert (downloaded.talk, downloaded.units) == (talk.name, logs[0][0].units)
    assert downloaded.delays == pytest.approx(logs[0][0].delays, abs=1e-3)
    speech = site.download(page, "Speech", tmp_path, place=1)
    pieces = torch.cat([spoken.samples for spoken in logs[1][0].speech])
    assert torch.equal(audio.load(speech), pieces)
    assert site.download(page, "Subtitles", tmp_path).read_text().startswith("WEBVTT\n")


def check_speech(page: Any, logged: Any, evaluated: Any) -> None:
    """What was played has each piece of the log without a gap, which an evaluation has, too."""
    assert [piece.delay for piece in logged] == [piece.delay for piece in evaluated]
    page.wait_for_timeout(1000)  # the end of the newest samples
    speech = site.played(page)[1].tobytes()  # after the context of the source
    position = 0
    for one, other in zip(logged, evaluated, strict=True):
        samples = (one.samples * 32768).round().numpy().astype(np.int16)
        expected = (other.samples * 32768).round().clamp(-32768, 32767).numpy()
        assert np.abs(samples - expected).max() <= 1
        position = speech.find(samples.tobytes(), position)
        assert position >= 0
        assert position % 2 == 0
        position += 2 * len(samples)


def test_languages_systems_and_latencies_are_chosen(page: Any, echoes: Site) -> None:
    site.load(page, echoes.address)

    def choices(name: str) -> list[str]:
        return page.locator(f"#{name} option").all_text_contents()

    assert choices("direction") == ["en → de", "en → zh"]
    assert choices("system-0") == ["echo", "another"]
    assert choices("system-1") == ["none", "echo", "another", "chinese (en → zh)"]
    page.select_option("#direction", "en → zh")
    assert choices("system-0") == ["chinese"]
    assert not page.is_visible("#latency-0")
    page.select_option("#system-1", label="echo (en → de)")
    assert choices("latency-1") == ["m = 2", "m = 1"]
    assert page.get_by_label("Latency (m of echo, beside)").is_visible()
    page.get_by_label("Latency (m of echo, beside)").select_option("m = 1")
    used = [cast("Any", one) for name in ("echo", "chinese") for one in echoes.hub.systems[name]]
    before = [len(one.batches) for one in used]
    page.select_option("#source", "talk:short")
    page.click("#start")
    site.wait_for_status(page, "Done.")
    assert page.locator("h2").all_text_contents() == ["chinese, en → zh", "echo m=1, en → de"]
    more = [len(one.batches) - number for one, number in zip(used, before, strict=True)]
    assert [number > 0 for number in more] == [False, True, True]


def test_the_newest_lines_of_a_transcript_are_seen(page: Any, echoes: Site) -> None:
    site.load(page, echoes.address)
    site.translate(page, "talk:short", ["another"])
    transcript = page.locator(".transcript")
    assert transcript.text_content().startswith("line 0\nline 1\n")
    below, above = transcript.evaluate(
        "one => [one.scrollHeight - one.scrollTop - one.clientHeight, one.scrollTop]"
    )
    assert below < 2 < above


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Any, echoes: Site, scheme: str) -> None:
    package = pytest.importorskip("axe_playwright_python", reason="axe is not installed")
    script = next(Path(package.__file__).parent.rglob("axe.min.js")).read_text()
    # The policy of the page forbids axe; without motion, colours change at once.
    settings = {"color_scheme": scheme, "bypass_csp": True, "reduced_motion": "reduce"}

    def violations() -> list[Any]:
        found = page.evaluate("axe.run()")["violations"]
        return [(one["id"], [node["target"] for node in one["nodes"]]) for one in found]

    with browser.new_context(**settings) as context:
        page = context.new_page()
        site.load(page, echoes.address)
        page.evaluate(script)
        assert violations() == []
        page.select_option("#system-1", label="another")
        page.select_option("#source", "talk:long")
        page.click("#start")
        page.wait_for_selector(".word")
        page.click("#pause")
        assert violations() == []
        page.click("#stop")
        site.wait_for_status(page, "Done.")
        assert violations() == []


def test_the_keyboard_is_enough(page: Any, echoes: Site) -> None:
    site.load(page, echoes.address)
    page.select_option("#source", "talk:long")

    def tab_to(name: str) -> None:
        for _ in range(12):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.id") == name:
                break
        focused = page.locator(f"#{name}")
        assert focused.evaluate("one => one.matches(':focus-visible')")
        assert focused.evaluate("one => parseFloat(getComputedStyle(one).outlineWidth)") >= 2

    for name in ("source", "system-0", "system-1", "start"):
        tab_to(name)
    page.keyboard.press("Enter")
    site.wait_for_status(page, "Translating.")
    for status in ("Paused.", "Translating."):
        tab_to("pause")
        page.keyboard.press("Enter")
        site.wait_for_status(page, status)
    tab_to("stop")
    page.keyboard.press("Enter")
    site.wait_for_status(page, "Done.")


def test_a_telephone_shows_all(page: Any, echoes: Site) -> None:
    page.set_viewport_size({"width": 400, "height": 800})
    site.load(page, echoes.address)
    site.translate(page, "talk:short", ["echo", "another"])
    assert page.evaluate("document.documentElement.scrollWidth") == 400


def test_a_file_is_translated_after_one_that_is_none(page: Any, echoes: Site) -> None:
    site.load(page, echoes.address)
    page.select_option("#source", "file")
    page.click("#start")
    site.wait_for_status(page, "Choose an audio file first.")
    wrong = {"name": "notes.wav", "mimeType": "audio/wav", "buffer": b"no audio"}
    page.set_input_files("#file", wrong)
    page.click("#start")
    site.wait_for_status(page, "The browser cannot decode notes.wav; choose another audio file.")
    page.set_input_files("#file", echoes.hub.talks["short"].file)
    page.click("#start")
    site.wait_for_status(page, "Done.")
    assert site.text(page) == " ".join(["20"] * 20)


def test_stop_ends_a_question_for_the_microphone(page: Any, echoes: Site) -> None:
    page.add_init_script(
        """
        const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
        navigator.mediaDevices.getUserMedia = async (wanted) => {
          await new Promise((resolve) => { window.answer = resolve; });
          return window.media = await ask(wanted);
        };"""
    )
    site.load(page, echoes.address)
    page.click("#start")
    page.wait_for_timeout(300)
    page.click("#stop")
    site.wait_for_status(page, "Stopped.")
    page.evaluate("window.answer()")  # too late
    page.wait_for_timeout(500)
    assert page.evaluate("window.media.getTracks().map((one) => one.readyState)") == ["ended"]
    site.translate(page, "talk:short", ["echo"])


def test_a_refused_microphone_is_named(page: Any, echoes: Site) -> None:
    page.add_init_script(
        "navigator.mediaDevices.getUserMedia = async () => { throw new Error('denied'); };"
    )
    site.load(page, echoes.address)
    page.click("#start")
    site.wait_for_status(page, "The browser gives no microphone (denied).")


def test_one_panel_without_connection_ends_both(page: Any, echoes: Site) -> None:
    page.add_init_script(
        """
        window.sockets = [];
        const Socket = WebSocket;
        window.WebSocket = function (address) {
          const socket = new Socket(window.sockets.length === 1 ? "ws://127.0.0.1:9/" : address);
          window.sockets.push(socket);
          return socket;
        };
        window.WebSocket.OPEN = Socket.OPEN;
        window.WebSocket.CLOSED = Socket.CLOSED;"""
    )
    site.load(page, echoes.address)
    page.select_option("#source", "talk:short")
    page.select_option("#system-1", label="another")
    page.click("#start")
    site.wait_for_status(page, "The server does not answer.")
    page.wait_for_timeout(500)
    closed = page.evaluate("window.sockets.map((one) => one.readyState === WebSocket.CLOSED)")
    assert closed == [True, True]
    site.translate(page, "talk:short", ["echo"])


def test_a_full_server_and_a_lost_connection_are_named(page: Any, tmp_path: Path) -> None:
    with site.serving(echo_hub(tmp_path, streams=1)) as full:
        site.load(page, full.address)
        page.select_option("#source", "talk:long")
        page.select_option("#system-1", label="another")
        page.click("#start")
        sentence = "All 1 places of this server are taken; try again later."
        page.wait_for_selector(f'.problem:text-is("{sentence}")')
        page.wait_for_selector(".word")
        full.server.should_exit = True
        page.wait_for_selector("#start:enabled")
    problems = page.locator(".problem").all_text_contents()
    lost = 1 - problems.index(sentence)
    assert problems[lost].startswith("The connection was lost")
    log = site.download(page, "Log", tmp_path, place=lost)
    (instance,) = read_log(log, language=language("de"))
    assert instance.text == site.text(page, lost)


def test_hours_of_words_stay_a_small_page(page: Any, echoes: Site) -> None:
    site.load(page, echoes.address)
    kept = page.evaluate(
        """async () => {
          const {Words} = await import("/page/words.js");
          const area = document.createElement("p");
          document.body.append(area);
          const words = new Words(area);
          for (let index = 0; index < 400; index++) {
            words.add({new: ` ${"a".repeat(94)}${100 + index}`, delay: index, elapsed: index});
          }
          const size = [area.childElementCount, area.textContent.length];
          const kept = words.text.indexOf("250"); // before the words that are elements
          words.remove(words.text.slice(kept + 3));
          words.add({new: " end", delay: 400, elapsed: 400});
          const log = JSON.parse(words.log({talk: "a", seconds: 1, separator: " "}));
          return [...size, words.text.slice(-7), area.firstChild.data.slice(-4),
            area.querySelectorAll(".deleted").length, log.delays.length];
        }"""
    )
    assert kept == [200, 6_000 + 200 * 98, "250 end", "a250", 199, 152]
