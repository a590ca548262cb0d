"""Scores by name: their columns, units and decimals, and the roles that they play in charts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from zoo.results.row import Row


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
        speech: whether the column is shown only for systems with target speech.
    """

    score: str
    header: str
    digits: int
    unit: str = ""
    priority: int = 0
    speech: bool = False


COLUMNS = (
    Column("BLEU", "BLEU", 1),
    Column("chrF", "chrF", 1, priority=3),
    Column("ASR_BLEU", "ASR\nBLEU", 1, speech=True),
    Column("ASR_WER", "ASR\nWER", 1, priority=4, speech=True),
    Column("StreamLAAL", "Stream\nLAAL", 2, "s"),
    Column("StreamLAAL_CA", "Stream\nLAAL_CA", 2, "s", priority=1),
    Column("LongYAAL", "Long\nYAAL", 2, "s", priority=4),
    Column("StartOffset", "Start\nOffset", 2, "s", priority=1, speech=True),
    Column("RTF", "RTF", 2, priority=2),
)
# Columns of talks without references.
UNREFERENCED_COLUMNS = (
    Column("StartOffset", "Start\nOffset", 2, "s"),
    Column("StartOffset_CA", "Start\nOffset_CA", 2, "s", priority=1),
    Column("EndOffset", "End\nOffset", 2, "s"),
    Column("EndOffset_CA", "End\nOffset_CA", 2, "s", priority=1),
    Column("RTF", "RTF", 2, priority=2),
)
# Columns of streams of one sentence each, by the score of whole talks that they replace.
SENTENCE_COLUMNS = {
    "StreamLAAL": (
        Column("AL", "AL", 2, "s", priority=1),
        Column("LAAL", "LAAL", 2, "s"),
    ),
    "StreamLAAL_CA": (Column("LAAL_CA", "LAAL_CA", 2, "s", priority=1),),
    "LongYAAL": (
        Column("AP", "AP", 2, priority=3),
        Column("DAL", "DAL", 2, "s", priority=3),
        Column("ATD", "ATD", 2, "s", priority=3),
    ),
}
MILLISECONDS = ("simuleval", "fbk_v1", "omnisteval")  # rules of tools that print milliseconds
SPEECH_SCORES = ("ASR_BLEU", "SpeechOverlap")  # scores that only systems with target speech have


def has_speech_scores(row: Row) -> bool:
    """Return whether a row has scores of target speech."""
    return any(score in row.scores for score in SPEECH_SCORES)


def columns(rows: Sequence[Row]) -> list[Column]:
    """Return the columns of a table of these rows, with extra metrics of the configuration.

    Talks without references have columns of their own. A speech column is left out if no row has
    its score. If every stream is a single sentence, latency is that of SimulEval, per sentence, and
    with the counting rules of a tool that prints milliseconds it is shown as that tool does.
    """
    speech_scores = {
        name
        for row in rows
        if has_speech_scores(row)
        for name, value in row.scores.items()
        if value is not None
    }
    if rows and not any(row.has_references for row in rows):
        return [*UNREFERENCED_COLUMNS, *map(score_column, comet_scores(rows))]
    shown = [column for column in COLUMNS if not column.speech or column.score in speech_scores]
    if rows and all(_has_sentences(row) for row in rows):
        shown = [
            other for column in shown for other in SENTENCE_COLUMNS.get(column.score, (column,))
        ]
        if all(row.settings.get("rules") in MILLISECONDS for row in rows):
            shown = [_in_milliseconds(column) for column in shown]
    extra = dict.fromkeys(name for row in rows for name in row.settings.get("metrics", ()))
    shown += [score_column(name) for name in comet_scores(rows)]
    return shown + [Column(name, name, 2) for name in extra]


def comet_scores(rows: Sequence[Row]) -> list[str]:
    """Return the names of the COMET scores that any row has."""
    return list(dict.fromkeys(name for row in rows for name in row.settings.get("comet", {})))


def _has_sentences(row: Row) -> bool:
    """Return whether every stream of a row is one sentence."""
    return row.settings.get("view") == "segments" or row.scores.get("AL") is not None


def _in_milliseconds(column: Column) -> Column:
    """Return a column of latencies with milliseconds and the three decimals of SimulEval."""
    if column.unit == "s":
        return replace(column, digits=3, unit="ms")
    return replace(column, digits=3) if column.score == "AP" else column


def score_column(name: str) -> Column:
    """Return the column of a score: that of the usual table, or one with two decimals."""
    if "COMET" in name:  # between 0 and 1; comet-score prints four decimals
        return Column(name, name.replace("_", "\n"), 4)
    sentences = (column for columns in SENTENCE_COLUMNS.values() for column in columns)
    known = {column.score: column for column in (*COLUMNS, *sentences)}
    return known.get(name, Column(name, name, 2))
