"""The page as it was: words of two systems at their times, and their rating without names."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.browser import reported
from tests.fixtures.segments import scored_segment
from zoo.base.talks import Segment, Talk, Word
from zoo.base.types import ChunkTime, Instance, StreamEvent
from zoo.report.page import write_report
from zoo.report.payload import payload
from zoo.runs.rows.ratings import FOLDER, read_ratings
from zoo.runs.rows.row import KnobValue, Row
from zoo.runs.rows.streams import ReportStream
from zoo.streaming.elapsed import with_convention

SECRET = "infinisst"


def row(system: str, place: int) -> Row:
    scores = {"BLEU": 50.0, "StreamLAAL": 1.5}
    log = f"instances/{place:02d}-{system}-m2/instances.log"
    return Row(system, KnobValue("m", 2), "c", "tst", "en", "de", scores, {}, log)


ROWS = [row(SECRET, 0), row("retranslation", 1), row("alignatt", 2)]


def stream(place: int, *units: tuple[str, int], events: tuple[StreamEvent, ...] = ()) -> Any:
    """A stream of words and the chunks that wrote them; computation takes a quarter of a second."""
    chunks = tuple(ChunkTime(1.0 + chunk, 0.25) for chunk in range(6))
    words = tuple(word for word, _ in units)
    indices = tuple(chunk for _, chunk in units)
    delays = tuple(chunks[chunk].arrival for chunk in indices)
    text = " ".join(words)
    instance = Instance(
        0, "talk", 6.0, text, words, delays, (), chunk_indices=indices, chunks=chunks, events=events
    )
    talk = Talk("talk", None, 6.0, "en", (Segment(0.0, 6.0, "one", (Word("one", 0.5, 0.9),)),))
    segment = scored_segment(0.0, 6.0, "one", text, text, talk="talk")
    return ReportStream(place, with_convention(instance, "queue"), talk, (segment,))


# "zwei" and "vier" are written by chunk 1 and 2, and deleted by chunk 3
REVISION = StreamEvent("revision", 4.0, chunk=3, text="zwei vier", pieces=((5, 1), (4, 2)))
REVISED = stream(1, ("eins", 0), ("drei", 3), events=(REVISION,))
STREAMS = [stream(0, ("ein", 0), ("Wort", 5)), REVISED, stream(2, ("A", 0))]


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "report.html"
    write_report(path, rows=ROWS, streams=STREAMS, title="Minitalks", context={})
    return path


def test_a_revision_says_when_the_deleted_words_were_written() -> None:
    [event] = payload(ROWS, STREAMS)["streams"][1]["events"]
    assert event[:4] == [4.0, "revision", 4.0, "zwei vier"]
    assert event[4:] == [4.25, [["zwei", 2.0, 2.25], ["vier", 3.0, 3.25]]]
    old = replace(REVISED.instance, events=(replace(REVISION, pieces=()),))
    [event] = payload(ROWS, [replace(REVISED, instance=old)])["streams"][0]["events"]
    assert event[4:] == [4.25, []]


LIVE = """
const line = (panel) => [...panel.querySelectorAll("span, del")]
  .map((node) => (node.localName === "del" ? `-${node.textContent}-` : node.textContent)).join(" ");
const texts = (times) => times.map((time) => {
  document.querySelector("#seek").value = time;
  document.querySelector("#seek").dispatchEvent(new Event("input"));
  return all("#live .panel-text").map(line).join(" | ");
});
const choose = (id, value) => {
  document.querySelector(id).value = value;
  document.querySelector(id).dispatchEvent(new Event("change"));
};
choose("#row", 0);
choose("#beside", 1);
report("aware", texts([1.2, 1.3, 2.3, 3.3, 4.2, 4.3, 6.3]));
report("names", all("#live [role=group]").map((panel) => panel.getAttribute("aria-label")));
document.querySelector("#captions").focus();
const press = (key) => document.querySelector("#captions")
  .dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
press("Home");
press("ArrowRight");
report("time", document.querySelector("#time").textContent);
press(" ");
report("playing", document.querySelector("#play").getAttribute("aria-label"));
press(" ");
document.querySelector('input[name="clock"][value="ideal"]').click();
report("ideal", texts([1, 4, 5.9, 6]));
choose("#beside", -1);
report("alone", texts([6]));
"""


def test_words_of_two_systems_appear_at_their_times_in_a_browser(page: Path) -> None:
    found = reported(page, LIVE)
    assert found["aware"] == [
        " | ",
        "ein | eins",
        "ein | eins zwei",
        "ein | eins zwei vier",
        "ein | eins zwei vier",
        "ein | eins -zwei- -vier- drei",
        "ein Wort | eins drei",  # the clock goes on until the last word is computed
    ]
    assert found["names"] == [f"{SECRET} m=2", "retranslation m=2"]
    assert found["time"] == "0:05 / 0:06"
    assert found["playing"] == "Pause"
    assert found["ideal"] == [
        "ein | eins",
        "ein | eins -zwei- -vier- drei",
        "ein | eins -zwei- -vier- drei",
        "ein Wort | eins drei",
    ]
    assert found["alone"] == ["ein Wort"]


def test_deleted_words_of_old_logs_appear_when_they_are_deleted(tmp_path: Path) -> None:
    old = replace(REVISED.instance, events=(replace(REVISION, pieces=()),))
    path = tmp_path / "report.html"
    streams = [STREAMS[0], replace(REVISED, instance=old)]
    write_report(path, rows=ROWS[:2], streams=streams, title="Minitalks", context={})
    assert reported(path, LIVE)["aware"][3:6] == [
        "ein | eins",
        "ein | eins",
        "ein | eins -zwei vier- drei",
    ]


RATING = """
const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
const dialog = document.querySelector("#rating");
const text = (id) => document.querySelector(id).textContent;
const press = (key) => dialog.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
URL.createObjectURL = (blob) => { blob.text().then((file) => report("saved", file)); return "#"; };
HTMLAnchorElement.prototype.click = function () { report("file", this.download); };
const begin = (rater) => {
  document.querySelector("#rater").value = rater;
  document.querySelector("#rating-form").requestSubmit();
};
report("opened", dialog.open);
const orders = [..."abcdefgh"].map((rater) => {
  begin(rater);
  const order = document.querySelector("#row").value;
  document.querySelector("#rating-close").click();
  document.querySelector("#rate").click();
  return order;
});
report("orders", new Set(orders).size);
begin("Ä B");
const again = document.querySelector("#row").value;
document.querySelector("#rating-close").click();
document.querySelector("#rate").click();
begin("ä b");
report("same", again === document.querySelector("#row").value);
press("3");
report("early", text("#rating-note"));
press(" ");
await wait(500);
press("3");
await wait(500);
press("0");
await wait(500);
press("4");
press("4");
press("7");
report("current", text("#rating-current"));
report("pressed", all("[data-rating][aria-pressed=true]").map((button) => button.dataset.rating));
press(" ");
report("shown", dialog.innerText);
document.querySelector("#rating-save").click();
await wait(100);
document.querySelector("#rating-next").click();
report("next", text("#rating-label") + text("#rating-current"));
"""


def test_two_systems_are_rated_without_their_names_in_a_browser(page: Path, tmp_path: Path) -> None:
    # the address that the dialog gives to raters
    link = '<script>location.hash = "talk=0&rate=0,1&clock=aware"</script>'
    page.write_text(page.read_text().replace("<head>", f"<head>{link}", 1))
    found = reported(page, RATING)
    assert found["opened"]
    assert found["orders"] == 2  # either system is first
    assert found["same"]  # for one rater always the same
    assert found["early"].startswith("A rating belongs to a moment")
    assert found["current"] == "Rating 4, 3 presses"
    assert found["pressed"] == ["4"]
    assert "System A" in found["shown"]
    assert not any(one.system in found["shown"] for one in ROWS)
    assert found["next"] == "System B (2 of 2), talk talk, rater ä bNo rating yet"
    assert found["file"].startswith("rating_ä-b_talk_")

    folder = tmp_path / FOLDER
    folder.mkdir()
    (folder / found["file"]).write_text(found["saved"])
    [(place, saved)] = read_ratings(tmp_path, ROWS, [["talk"]] * 3)
    assert place in (0, 1)
    assert (saved.rater, saved.clock) == ("ä b", "aware")
    assert [rating for _, rating in saved.ratings] == [3, 0, 4]
    assert 0 < saved.ratings[0][0] < saved.ratings[2][0] <= saved.until < 6.25
    assert set(json.loads(found["saved"])) == set(type(saved).__slots__)
