"""Scores by name: one entry for each, with its column, its unit and the roles that it plays."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Literal

from zoo.runs.rows.row import Row
from zoo.runs.rows.settings import Axis, Better

# Tables: of whole talks, of streams of one sentence each, of talks without references; "speech",
# "transcript", "revised", "regime" and "rated" have the columns that a table of the first two kinds
# adds for target speech, for transcripts, whose target language is the source language, for revised
# output, for rows with a latency regime, and for rows that humans have rated.
TableKind = Literal[
    "talks", "sentences", "speech", "transcript", "revised", "regime", "rated", "unreferenced"
]
ADDED_COLUMNS: tuple[TableKind, ...] = ("speech", "transcript", "revised", "regime", "rated")
COMPUTATION_AWARE = "_CA"  # end of the names of computation-aware scores
DOCUMENTS = "Doc"  # beginning of the names of scores of whole talks
ASR = "ASR_"  # beginning of the names of scores of recognised target speech
# Column of the latency regime of a row, which is no score: its settings name it.
REGIME = "Regime"
HUMAN_RATING = "HumanRating"  # of raters of the page (``zoo.runs.rows.ratings``)
MILLISECONDS = ("simuleval", "fbk_v1", "omnisteval")  # rules of tools that print milliseconds


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a score.

    Attributes:
        score: name of the score.
        header: heading.
        digits: number of decimals.
        unit: unit of the values.
        priority: rank of the column. A narrow terminal leaves out the columns of the largest
            priority first.
    """

    score: str
    header: str
    digits: int = 2
    unit: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of a score.

    Attributes:
        name: name of the score.
        heading: heading of its column; empty: the name.
        digits: number of decimals.
        unit: unit of a time: ``s``, or ``source`` for a share of the duration of the source.
        columns: priority of its column by the kind of table that shows it.
        axis: axis of the curves on which it is drawn, or None.
        of: what is scored: text, target speech, either of them (``output``), the events of streams,
            or the impression of humans. Streams without target speech, events or raters have no
            such scores.
        mean_of: score of each segment of which the score of a row is the mean, from which its
            interval follows; None: it has no interval, or one of resampled texts.
        better: which values are better.
    """

    name: str
    heading: str = ""
    digits: int = 2
    unit: str = ""
    columns: Mapping[TableKind, int] = field(default_factory=dict)
    axis: Axis | None = None
    of: Literal["text", "speech", "output", "events", "humans"] = "text"
    mean_of: str | None = None
    better: Better | None = None

    def column(self, kind: TableKind | None = None) -> Column:
        """Return the column of the score in a kind of table; None: outside of these tables."""
        priority = 0 if kind is None else self.columns[kind]
        return Column(self.name, self.heading or self.name, self.digits, self.unit, priority)


_quality = partial(Entry, axis="quality", better="higher")
_time = partial(Entry, unit="s", better="lower")
_latency = partial(_time, axis="latency")

# One entry per score, in the order of the columns. A score without an entry has two decimals.
SCORES = (
    _quality("BLEU", digits=1, columns={"talks": 0, "sentences": 0}),
    _quality("chrF", digits=1, columns={"talks": 3, "sentences": 3}),
    _quality("ASR_BLEU", "ASR\nBLEU", digits=1, columns={"speech": 0}, of="speech"),
    _quality("ASR_chrF", of="speech"),
    Entry("ASR_DocBLEU", "ASR\nDocBLEU", 1, columns={"speech": 1}, of="speech", better="higher"),
    Entry("ASR_WER", "ASR\nWER", digits=1, columns={"speech": 4}, of="speech", better="lower"),
    _quality(HUMAN_RATING, "Human\nrating", columns={"rated": 1}, of="humans"),
    Entry("WER", digits=1, columns={"transcript": 0}, better="lower"),
    Entry("LostWords", "Lost\nwords", 0, columns={"transcript": 1}, better="lower"),
    Entry("InventedWords", "Invented\nwords", 0, columns={"transcript": 1}, better="lower"),
    Entry("DoubledWords", "Doubled\nwords", 0, columns={"transcript": 1}, better="lower"),
    Entry("DocBLEU", better="higher"),
    Entry("DocLowercaseBLEU", better="higher"),
    _latency("StreamLAAL", "Stream\nLAAL", columns={"talks": 0}, mean_of="StreamLAAL"),
    _time("StreamLAAL_CA", "Stream\nLAAL_CA", columns={"talks": 1}),
    _latency("AL", columns={"sentences": 1}),
    _latency("LAAL", columns={"sentences": 0}),
    _time("LAAL_CA", columns={"sentences": 1}),
    _latency("LongYAAL", "Long\nYAAL", columns={"talks": 4}, mean_of="YAAL"),
    Entry(REGIME, columns={"regime": 5}),
    _latency("YAAL"),
    _latency("AP", unit="source", columns={"sentences": 3}),
    _latency("DAL", columns={"sentences": 3}),
    _latency("ATD", columns={"sentences": 3}),
    Entry("SWF", digits=1),
    Entry("EFSW", digits=1),
    Entry("DSPTV", digits=1),
    _latency("LongAL"),
    _latency("LongLAAL", mean_of="LAAL"),
    _latency("LongAP", unit="source"),
    _latency("LongDAL"),
    _latency("StartOffset", "Start\nOffset", columns={"speech": 1, "unreferenced": 0}, of="output"),
    _time("StartOffset_CA", "Start\nOffset_CA", columns={"unreferenced": 1}, of="output"),
    _latency("EndOffset", "End\nOffset", columns={"unreferenced": 0}, of="output"),
    _time("EndOffset_CA", "End\nOffset_CA", columns={"unreferenced": 1}, of="output"),
    _latency("SpeechLongYAAL", "Speech\nLongYAAL", columns={"speech": 2}, of="speech"),
    _time("SpeechDrift", "Speech\nDrift", columns={"speech": 2}, of="speech"),
    _time("DiscontinuitySum", of="speech"),
    _time("DiscontinuityAve", of="speech"),
    Entry("DiscontinuityNum", of="speech", better="lower"),
    Entry("SpeechOverlap", of="speech"),
    Entry("SpeechCER", of="speech", better="lower"),
    Entry("SpeechWER", of="speech", better="lower"),
    Entry("UTMOS", of="speech", better="higher"),
    Entry(
        "NormalizedErasure",
        "Normalized\nErasure",
        columns={"revised": 1},
        of="events",
        better="lower",
    ),
    Entry("SegmentSeconds", of="events"),
    Entry("SegmentWords", of="events"),
    Entry("TranscriptWER", of="events", better="lower"),
    Entry("RTF", columns=dict.fromkeys(("talks", "sentences", "unreferenced"), 2), better="lower"),
)
# Entry of every COMET model. Scores are between 0 and 1; comet-score prints four decimals.
COMET = _quality("COMET", digits=4)


# Scores that a table shows as soon as a row has them.
SHOWN_IF_SCORED = [
    one.name for one in SCORES if {"transcript", "revised", "rated"} & one.columns.keys()
]


def find_entry(name: str, rows: Sequence[Row] = ()) -> Entry:
    """Return the entry of a score; a computation-aware score may have that of the ideal one.

    Args:
        name: name of the score.
        rows: rows whose settings describe the metrics of the configuration.
    """
    entries = {entry.name: entry for entry in (*outside_entries(rows), *SCORES)}
    if is_comet(name):
        return replace(COMET, name=name, heading=name.replace("_", "\n"))
    ideal = entries.get(name.removesuffix(COMPUTATION_AWARE), Entry(name))
    return entries.get(name) or replace(ideal, name=name, heading="", mean_of=None)


def outside_entries(rows: Sequence[Row]) -> list[Entry]:
    """Return the entries of the metrics of the configuration that any row has."""
    metrics = {name: facts for row in rows for name, facts in row.settings.metrics.items()}
    return [Entry(name, **asdict(facts)) for name, facts in metrics.items()]


def is_comet(name: str) -> bool:
    """Return whether a score is that of a COMET model."""
    return COMET.name in name.upper()


def main_score(axis: Axis, kind: TableKind = "talks") -> str:
    """Return the score of an axis that a kind of table leaves out last."""
    drawn = [entry for entry in SCORES if entry.axis == axis and kind in entry.columns]
    return min(drawn, key=lambda entry: entry.columns[kind]).name


def scores_of(of: Literal["speech", "events"]) -> list[str]:
    """Return the names of the scores that only streams with target speech or events have."""
    return [entry.name for entry in SCORES if entry.of == of]


def has_speech_scores(row: Row) -> bool:
    """Return whether a row has scores of target speech."""
    return any(name in row.scores for name in scores_of("speech"))


def table_kind(row: Row) -> TableKind:
    """Return the kind of table that shows a row."""
    if not row.has_references:
        return "unreferenced"
    is_sentences = row.settings.view == "segments" or row.scores.get("AL") is not None
    return "sentences" if is_sentences else "talks"


def columns(rows: Sequence[Row]) -> list[Column]:
    """Return the columns of a table of these rows, with extra metrics of the configuration.

    Talks without references have columns of their own. A column of speech, transcripts or revised
    output is left out if no row has its score. If every stream is a single sentence, latency is
    that of SimulEval, per sentence, and with the counting rules of a tool that prints milliseconds
    it is shown as that tool does.
    """
    kinds = {table_kind(row) for row in rows}
    comet = [find_entry(name).column() for name in (*comet_scores(rows), *spoken_comet(rows))]
    scored = {
        name
        for row in rows
        for name, value in row.scores.items()
        if value is not None and (has_speech_scores(row) or name in SHOWN_IF_SCORED)
    }
    if kinds == {"unreferenced"}:
        return [*_columns("unreferenced", scored & {HUMAN_RATING}), *comet]

    kind: TableKind = "sentences" if kinds == {"sentences"} else "talks"
    if any(row.settings.regime for row in rows):
        scored.add(REGIME)
    shown = _columns(kind, scored)
    if kind == "sentences" and all(row.settings.rules in MILLISECONDS for row in rows):
        shown = [_in_milliseconds(column) for column in shown]
    return [*shown, *comet, *(entry.column() for entry in outside_entries(rows))]


def _columns(kind: TableKind, scored: Collection[str] = ()) -> list[Column]:
    """Return the columns of a kind of table, and the added columns that rows have."""
    shown: list[Column] = []
    for entry in SCORES:
        if kind in entry.columns:
            shown.append(entry.column(kind))
        elif entry.name in scored:
            shown += [entry.column(added) for added in ADDED_COLUMNS if added in entry.columns]
    return shown


def comet_scores(rows: Sequence[Row]) -> list[str]:
    """Return the names of the COMET scores that any row has."""
    return list(dict.fromkeys(name for row in rows for name in row.settings.comet))


def spoken_comet(rows: Sequence[Row]) -> list[str]:
    """Return the names of the COMET scores of recognised target speech that any row has."""
    names = [ASR + name for name in comet_scores(rows)]
    return [name for name in names if any(name in row.scores for row in rows)]


def _in_milliseconds(column: Column) -> Column:
    """Return a column of latencies with milliseconds and the three decimals of SimulEval."""
    if column.unit == "s":
        return replace(column, digits=3, unit="ms")
    return replace(column, digits=3) if column.unit else column
