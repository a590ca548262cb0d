"""The page as its readers use it: zoomed, sorted, printed, and on the screen of a telephone."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.fixtures.browser import reported
from tests.fixtures.segments import scored_segment
from zoo.base.talks import Segment, Talk, Word
from zoo.base.types import Instance
from zoo.report.page import write_report
from zoo.report.payload import payload
from zoo.runs.rows.names import find_entry
from zoo.runs.rows.row import KnobValue, Row
from zoo.runs.rows.settings import MetricFacts, RowSettings
from zoo.runs.rows.streams import ReportStream

LONG = "x" * 90  # no place to break a line


def row(system: str = "alignatt", m: float = 2, *, kind: str = "system", **scores: float) -> Row:
    knob = KnobValue("m", m) if kind == "system" else None
    settings = RowSettings(
        weights={"backbone.name": system.removesuffix(" offline")},
        comet={"COMET": "model"},
        metrics={"TER": MetricFacts(axis="quality", digits=0, better="lower")},
    )
    corpus = ("minitalks", "tst", "en", "de")
    return Row(system, knob, *corpus, scores, {}, "i", kind=kind, settings=settings)  # type: ignore[arg-type]


def curve(**scores: float) -> list[Row]:
    """A curve of five points, then a row with scores of its own."""
    near = [
        row(m=m, BLEU=20 + m, StreamLAAL=1 + m / 4, COMET=0.8 + m / 100, TER=60.4 - m)
        for m in range(1, 6)
    ]
    return [*near, row("wait_k", 9, **{"BLEU": 24.0, "StreamLAAL": 2.0, "COMET": 0.82} | scores)]


def write_page(path: Path, rows: list[Row], streams: list[ReportStream] | None = None) -> Path:
    context = {"command": LONG, LONG: "value"}
    write_report(path, rows=rows, streams=streams or [], title="Minitalks", context=context)
    return path


CHART = """
const spread = (query, axis) => {
  const places = all(query).map((node) => node.getBoundingClientRect()[axis]);
  return Math.max(...places) - Math.min(...places);
};
const size = document.querySelector("#chart > svg").getBoundingClientRect();
const state = () => ({
  points: all(".point").length,
  across: spread(".point", "x") / size.width,
  up: spread(".point", "y") / size.height,
  note: document.querySelector("#chart-note").textContent,
});
const press = (text) => all("#chart-note button").find((one) => one.textContent === text).click();
const point = (type, x, y) => document.querySelector("#chart > svg").dispatchEvent(
  new PointerEvent(type, { clientX: size.left + x, clientY: size.top + y, bubbles: true }));
"""
ZOOMED = """
const first = state();
press("Show all rows");
const everything = state();
press("Reset the axes");
const again = state();
const [left, right] = all(".point").slice(0, 2).map((node) => node.getBoundingClientRect());
point("pointerdown", left.x - size.left - 20, left.y - size.top + 40);
point("pointermove", right.x - size.left, right.y - size.top);
point("pointerup", right.x - size.left + 20, right.y - size.top - 10);
const zoomed = state();
document.querySelector("#chart > svg").dispatchEvent(new MouseEvent("dblclick"));
report("states", [first, everything, again, zoomed, state()]);
"""


@pytest.mark.parametrize(
    "outlier", [{"StreamLAAL": 60.0}, {"StreamLAAL": 60.0, "BLEU": 10.0}, {"BLEU": 400.0}]
)
def test_a_far_row_does_not_press_the_curve_together(
    tmp_path: Path, outlier: dict[str, float]
) -> None:
    path = write_page(tmp_path / "report.html", curve(**outlier))
    first, everything, again, zoomed, last = reported(path, CHART + ZOOMED)["states"]
    assert first["points"] == 5
    assert min(first["across"], first["up"]) > 0.4
    assert "Outside of the axes: wait_k m=9 (" in first["note"]
    assert everything["points"] == 6
    assert "Outside" not in everything["note"]
    assert zoomed["points"] == 2
    assert "Reset the axes" in zoomed["note"]
    assert first == again == last


def test_scores_between_0_and_1_fill_the_chart_and_keep_their_decimals(tmp_path: Path) -> None:
    path = write_page(
        tmp_path / "report.html", [*curve(), row("a offline", kind="ceiling", COMET=0.8512)]
    )
    script = """
    const choice = document.querySelector("#quality");
    choice.value = "COMET";
    choice.dispatchEvent(new Event("change"));
    const legend = document.querySelector("#legend .offline").textContent;
    report("found", [state().up, legend, document.querySelector(".point").ariaLabel]);
    """
    up, legend, label = reported(path, CHART + script)["found"]
    assert up > 0.3
    assert legend == "a offline 0.8512"
    assert "COMET  0.8100" in label
    assert "BLEU  21.0" in label
    assert "TER  59" in label.split(", ")  # a metric of the configuration
    assert 'data-value="59.4">59</td>' in path.read_text()


def test_an_offline_row_names_the_systems_that_share_it(tmp_path: Path) -> None:
    offline = row("alignatt offline", kind="ceiling", BLEU=30.0)
    shared = [
        replace(row(name, BLEU=20.0, StreamLAAL=1.0), settings=offline.settings)
        for name in ("alignatt", "edatt", "wait_k")
    ]
    other = row("other", BLEU=21.0, StreamLAAL=1.0)
    elsewhere = replace(shared[1], system="elsewhere", split="dev")
    rows = [*shared, other, elsewhere, offline]
    found = [entry["sharers"] for entry in payload(rows, [])["rows"]]
    assert found == [[], [], [], [], [], ["edatt", "wait_k"]]
    path = write_page(tmp_path / "report.html", rows)
    script = """
    const line = all('.scores tr[data-row="5"] small').map((node) => node.textContent);
    const target = document.querySelector(".ceiling-target");
    target.dispatchEvent(new PointerEvent("pointermove", { clientX: 200, clientY: 200 }));
    const tip = all("#tip > *").map((node) => node.textContent);
    report("found", [line, document.querySelector("#legend .offline").textContent, tip]);
    """
    line, legend, tip = reported(path, script)["found"]
    assert "also of edatt, wait_k: the same network" in line
    assert legend == "alignatt offline (also of edatt, wait_k) 30.0"
    assert tip[:2] == ["alignatt offline", "also of edatt, wait_k"]


SORT = """
const orders = (button) => [0, 1].map(() => {
  button.click();
  const cells = all(`.scores tbody td:nth-child(${button.closest("th").cellIndex + 1})`);
  return cells.map((cell) => cell.dataset.value === "" ? null : Number(cell.dataset.value));
});
const scores = all("thead button").filter((button) => button.dataset.score);
const ordersOfScores = scores.map((button) => [button.dataset.score, orders(button)]);
report("orders", Object.fromEntries(ordersOfScores));
report("marked", all("[aria-sort]").length);
"""


def test_the_first_click_on_a_column_puts_the_best_row_first(tmp_path: Path) -> None:
    names = ["BLEU", "COMET", "StreamLAAL", "StreamLAAL_CA", "RTF", "UTMOS", "TranscriptWER"]
    names += ["TER", "SegmentWords"]  # a metric of the configuration, and one without a direction
    values = [9.5, 30.0, 10.0, 200.0]  # as text, 9.5 would be the highest
    rows = [row(m=m, **dict.fromkeys(names, value)) for m, value in enumerate(values)]
    rows.insert(1, row(m=9, DocBLEU=1.0))
    found = reported(write_page(tmp_path / "report.html", rows), SORT)
    assert found["marked"] == 1
    assert set(names) < set(found["orders"])
    for name in names:
        is_higher = find_entry(name, rows).better == "higher"
        first, second = found["orders"][name]
        assert first == [*sorted(values, reverse=is_higher), None], name
        assert second == [*sorted(values, reverse=not is_higher), None], name
    directions = [find_entry(name, rows).better for name in names]
    assert directions == ["higher", "higher", *["lower"] * 3, "higher", "lower", "lower", None]


PRINT = """
for (const rule of all("style").flatMap((style) => [...style.sheet.cssRules])) {
  if (rule.media?.mediaText === "print") rule.media.mediaText = "all";
}
await new Promise((done) => setTimeout(done, 200));
const controls = all("select, input, nav a, .note button, .filters, .player").filter(isSeen);
report("controls", controls.map((node) => node.outerHTML));
const results = ["#chart svg", "#legend", "#chart-set", ".scores", "#segments", "#run"];
report("kept", results.map((query) => isSeen(document.querySelector(query))));
report("talks", isSeen(document.querySelector("#talks")));
report("overflow", getComputedStyle(document.querySelector(".scroll")).overflowX);
const { scrollWidth, clientWidth } = document.documentElement;
report("over", scrollWidth - clientWidth);
report("paper", getComputedStyle(document.body).backgroundColor);
"""


def test_paper_has_the_results_without_the_controls(tmp_path: Path, stream: ReportStream) -> None:
    rows = [*curve(StreamLAAL=60.0), replace(row(BLEU=1.0, StreamLAAL=1.0), split="dev")]
    path = write_page(tmp_path / "report.html", rows, [stream])
    found = reported(path, PRINT, width=718)  # A4 without its margins
    assert found["controls"] == []
    assert found["kept"] == [True] * 6
    assert not found["talks"]
    assert found["overflow"] == "visible"
    assert found["over"] == 0
    assert found["paper"] == "rgb(255, 255, 255)"


NARROW = """
const { documentElement } = document;
const over = () => documentElement.scrollWidth - documentElement.clientWidth;
const overs = { page: over() };
for (const [place, list] of all("details").entries()) {
  list.open = true;
  await new Promise((done) => setTimeout(done, 50));
  overs[`list ${place}`] = over();
  list.open = !list.matches(".choice");
}
document.querySelector("#extra").click();
document.querySelector(".point").dispatchEvent(new FocusEvent("focus"));
overs.tip = over();
report("overs", overs);
report("table", document.querySelector(".scores").clientWidth);
"""


@pytest.fixture
def stream() -> ReportStream:
    words = (Word("one", 0.5, 0.9), Word(LONG, 1.0, 1.5))
    talk = Talk(LONG, None, 6.0, "en", (Segment(0.5, 2.0, f"one {LONG}", words),))
    hypothesis = Instance(0, LONG, 6.0, f"eins {LONG}", ("eins", LONG), (2.0, 3.0), (2.5, 3.5))
    texts = (f"one {LONG}", f"eins {LONG}", f"eins {LONG}")
    return ReportStream(0, hypothesis, talk, (scored_segment(0.5, 2.0, *texts),))


def test_nothing_is_wider_than_a_telephone(tmp_path: Path, stream: ReportStream) -> None:
    scores = dict.fromkeys(("chrF", "LongYAAL", "RTF", "UTMOS", "DocBLEU"), 1.0)
    rows = [replace(one, scores={**one.scores, **scores}) for one in curve(StreamLAAL=60.0)]
    rows += [row(LONG, BLEU=20, StreamLAAL=2), row(f"{LONG} offline", kind="ceiling", BLEU=30)]
    rows.append(replace(rows[0], split=LONG, flags=(LONG,), stages={"encoder": 0.1}))
    path = write_page(tmp_path / "report.html", rows, [stream, replace(stream, row=6)])
    found = reported(path, NARROW, width=400)
    assert found["overs"] == dict.fromkeys(found["overs"], 0)
    assert len(found["overs"]) >= 7
    assert found["table"] > 400  # it scrolls in its own frame
