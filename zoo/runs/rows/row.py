"""Rows of ``results.json``: scores of one system at one knob value on one split."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from zoo.base.disk.files import write_text
from zoo.base.disk.parsing import has_control_characters, parse_json, read_bounded, texts_in
from zoo.base.disk.run_folder import RESULTS
from zoo.base.errors import ZooError, shorten
from zoo.formats.text import LARGEST
from zoo.runs.rows.settings import STRICT, RowSettings

if TYPE_CHECKING:
    from pydantic import ValidationError

# Least share of the compute time in which the thread that streams has a CPU on an idle machine. In
# the rest it waits for the other threads of an operation.
CPU_SHARE = 0.8
LONGEST_NAME = 1000  # characters of a name in ``results.json``
Records = TypeVar("Records")
# Corpus, split, source language, target language, and the talks where joined runs have others.
TestSet = tuple[str, str, str, str, str]


@dataclass(frozen=True, slots=True)
class KnobValue:
    """A value of the latency knob: the setting of a system that trades latency for quality.

    Attributes:
        name: name of the knob, such as ``m`` or ``k``.
        value: value in one row.
    """

    __pydantic_config__ = STRICT
    name: str
    value: int | float


@dataclass(frozen=True, slots=True)
class TalkScores:
    """Scores of one talk of a row.

    Attributes:
        talk: name of the talk.
        seconds: duration of the talk.
        scores: values by name of the score, as those of the row.
    """

    __pydantic_config__ = STRICT
    talk: str
    seconds: float
    scores: dict[str, float | None]


@dataclass(frozen=True, slots=True)
class Row:
    """Scores of one system, or of a reference row (offline or oracle).

    Attributes:
        system: name of the system.
        knob: name and value of the latency knob, or None.
        data: name of the corpus.
        split: split of the corpus.
        source_language: code of the source language.
        target_language: code of the target language.
        scores: values by name of the score; times are seconds (None: the score is not defined).
        signatures: signatures by name of the score.
        instances: path of the log, relative to ``results.json``.
        kind: ``system``; ``ceiling``, which receives each reference segment as a whole before it
            decodes and has no latency; or ``oracle``, which emits the references.
        flags: reasons not to trust the scores (``zoo.metrics.flags``).
        settings: settings of the evaluation, such as batch size and elapsed convention, and facts
            of the streaming.
        talks: scores of the text of each talk; empty if streams are single sentences.
        intervals: lower and upper bound of the 95 % interval by name of the score; empty if none
            were asked for (``zoo.evaluation.significance``).
        p_values: probability that chance makes a difference from the baseline row as large, by test
            and name of the score; empty for the baseline. ``settings`` names the baseline.
        stages: compute by stage (``zoo.streaming.stages``) in seconds per second of audio, which
            the streams of a batch share; empty if it was not measured. The sum of one stream after
            the other is RTF.
    """

    __pydantic_config__ = STRICT
    system: str
    knob: KnobValue | None
    data: str
    split: str
    source_language: str
    target_language: str
    scores: dict[str, float | None]
    signatures: dict[str, str]
    instances: str
    kind: Literal["system", "ceiling", "oracle"] = "system"
    flags: tuple[str, ...] = ()
    settings: RowSettings = field(default_factory=RowSettings)
    talks: tuple[TalkScores, ...] = ()
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    p_values: dict[str, dict[str, float]] = field(default_factory=dict)
    stages: dict[str, float] = field(default_factory=dict)

    @property
    def knob_label(self) -> str:
        """The latency setting, such as ``m=2``; empty for a system without a knob."""
        return "" if self.knob is None else f"{self.knob.name}={self.knob.value:g}"

    @property
    def label(self) -> str:
        """The system and its latency setting, such as ``infinisst m=2``."""
        return f"{self.system} {self.knob_label}".strip()

    @property
    def test_set(self) -> TestSet:
        """The test set; only rows of one test set can be compared."""
        languages = self.source_language, self.target_language
        return self.data, self.split, *languages, self.settings.talk_set

    @property
    def prefix(self) -> str:
        """The test set as the beginning of a logged key, such as ``tst/en-de``."""
        return f"{self.split}/{self.source_language}-{self.target_language}"

    @property
    def has_references(self) -> bool:
        """Whether the talks have references."""
        return self.settings.references

    @property
    def has_reference_segments(self) -> bool:
        """Whether a system received the reference segmentation, which no live stream has.

        Its rows are easier than those of systems that receive whole talks.
        """
        if self.kind != "system":
            return False
        return self.settings.view == "segments" or self.settings.reference_segments

    def record(self) -> dict[str, Any]:
        """Return the row as plain values, without settings that have their default."""
        return {**asdict(self), "settings": self.settings.record()}

    @property
    def has_loaded_machine(self) -> bool:
        """Whether the machine did other work during the row, which makes its compute time longer.

        The computation-aware scores of such a row are no property of its system.
        """
        compute = self.settings.compute
        if compute is None:
            return False
        return compute.cpu_share < CPU_SHARE or compute.load_average > compute.cores


def write_rows(rows: Sequence[Row], path: Path) -> None:
    """Write ``results.json``, a list of rows; a reader finds the old or the new file complete."""
    text = json.dumps([row.record() for row in rows], indent=2, ensure_ascii=False, allow_nan=False)
    write_text(path, text + "\n")


def read_rows(path: Path) -> list[Row]:
    """Read ``results.json``. Raises ZooError for a damaged file or the file of another version."""
    rows = read_records(path, list[Row], RESULTS)
    for number, row in enumerate(rows):
        names = (row.system, row.data, row.split, row.knob_label, *row.scores, *row.stages)
        longest = max(map(len, names))
        # Plots draw every character of these names.
        if longest > LONGEST_NAME:
            raise ZooError(
                f"{path} has a name of {longest} characters in row {number}; names have at most "
                f"{LONGEST_NAME}."
            )
    return rows


def log_in(folder: Path, row: Row) -> Path:
    """Return the log of a row, beside which its other files are read and written.

    Args:
        folder: run folder, which may be of another person.
        row: row of its results.

    Raises:
        ZooError: the row names a log in another folder, as those of a report on runs do.
    """
    place = Path(row.instances)
    if place.is_absolute() or ".." in place.parts:
        raise ZooError(
            f"{folder / RESULTS} names a log in another folder, {shorten(repr(row.instances))}; "
            "name the run that has the log."
        )
    return folder / place


def read_records(path: Path, kind: type[Records], noun: str) -> Records:
    """Read a JSON file by the types of its records.

    Args:
        path: file.
        kind: type of its content.
        noun: what the file should be, for messages.

    Raises:
        ZooError: the content has another type, or control characters, or cannot be read.
    """
    # imported only here: a command that writes results does not wait for it
    from pydantic import TypeAdapter, ValidationError

    try:
        content = read_bounded(path, LARGEST)
        records = TypeAdapter(kind).validate_json(content, strict=True)
        if any(map(has_control_characters, texts_in(parse_json(content)))):
            raise ZooError(f"{path} contains control characters, which a terminal would obey.")
        return records
    except ValidationError as error:
        raise ZooError(f"{path} is no {noun} of this version: {first_problem(error)}.") from error
    except OSError as error:
        raise ZooError(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:  # two equal keys, of which pydantic takes the last one
        raise ZooError(f"{path} is no {noun} of this version: {error}.") from error


def first_problem(error: "ValidationError") -> str:
    """Return the first wrong value that pydantic has found: its place and what is wrong."""
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"]))  # empty for the whole content
    return ": ".join(filter(None, (place, first["msg"])))
