"""Logs and segment lists with the faults that users of other tools reported.

Each is scored as it would be without the fault, scored with a flag, or refused with one sentence.
"""

import json
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.conftest import Evaluate, Result

Record = dict[str, Any]
Lines = list[Record]


def stream(index: int, talk: str, text: str, seconds: float, **fields: Any) -> Record:
    """A stream that writes its words one after the other, the last one at its end."""
    words = len(text.split())
    delays = [1000 * seconds * (word + 1) / words for word in range(words)]
    record = {
        "index": index,
        "prediction": text,
        "delays": delays,
        "elapsed": [delay + 10 for delay in delays],
        "reference": text,
        "source": [f"{talk}.wav"],
        "source_length": 1000 * seconds,
    }
    return {**record, **fields}


TALKS = [
    stream(0, "ted_1", "Für uns zählt es. Das ist gut.", 4.0),
    stream(1, "ted_2", "Wir gehen.", 2.0),
]
YAML = (
    "- {duration: 2.0, offset: 0.0, wav: ted_1.wav}\n"
    "- {duration: 2.0, offset: 2.0, wav: ted_1.wav}\n"
    "- {duration: 2.0, offset: 0.0, wav: ted_2.wav}\n"
)
REFERENCES = "Für uns zählt es.\nDas ist gut.\nWir gehen.\n"
SENTENCES = [
    stream(0, "a", "Das ist gut.", 1.5),
    stream(1, "b", "Ja.", 0.8),
    stream(2, "c", "Wir gehen nach Hause.", 2.1),
]


def evaluated(
    evaluate: Evaluate, folder: Path, streams: Lines, yaml: str = "", texts: str = "", *more: str
) -> Result:
    """The result of a replay, of sentences or, with a segment list, of whole talks."""
    lines = "".join(json.dumps(record) + "\n" for record in streams)
    (folder / "theirs.log").write_text(lines)
    given = ["system=replay", "system.log=theirs.log", "data=recorded", "logger=csv", "threads=1"]
    if yaml:
        (folder / "segments.yaml").write_text(yaml)
        (folder / "references.txt").write_text(texts)
        given += ["data.segments=segments.yaml", "data.references=references.txt"]
    return evaluate(*given, "hydra.run.dir=run", *more, tiny=False)


def row_of(done: Result, folder: Path) -> Record:
    assert done.code == 0, done.err
    (row,) = json.loads((folder / "run" / "results.json").read_text())
    return dict(row)


def changed(streams: Lines, place: int, **fields: Any) -> Lines:
    """Streams of which one has other fields."""
    return [{**one, **(fields if at == place else {})} for at, one in enumerate(streams)]


def times(place: int, change: Callable[[list[float]], list[float]], key: str = "delays") -> Lines:
    """The talks, one with other times."""
    return changed(TALKS, place, **{key: change(TALKS[place][key])})


LOOP = stream(1, "b", " ".join(["ja"] * 224), 0.8, reference="Ja.")
NFD = unicodedata.normalize("NFD", REFERENCES)
HALF = stream(0, "ted_1", "Für uns zählt es.", 2.0)

# Streams, segment list, references and the beginning of each flag of the row.
SCORED: dict[str, tuple[Lines, str, str, list[str]]] = {
    "sentences": (SENTENCES, "", "", []),
    "talks": (TALKS, YAML, REFERENCES, []),
    "a loop in a short stream": (
        [SENTENCES[0], LOOP, SENTENCES[2]],
        "",
        "",
        [
            "writes 231 units where",
            "writes 224 units for 0.80 s",
            "repeats 'ja' 224 times",
            "may have a degenerate policy",
        ],
    ),
    "a log of one loop": (
        [{**LOOP, "index": 0}],
        "",
        "",
        ["writes 224 units where", "writes 224 units for 0.80 s", "repeats 'ja' 224 times"],
    ),
    "a stream that is cut": (
        [HALF, TALKS[1]],
        YAML,
        REFERENCES,
        ["stops before the end of 1 of 2 streams (ted_1, after 2.0 of 4.0 s)"],
    ),
    "chunks that are cut": (
        [
            {
                **TALKS[0],
                "delays": [1000] * 4 + [3000] * 3,
                "chunks": [[1000, 1], [3000, 1]],
                "chunk_of": [0] * 4 + [1] * 3,
            },
            {**TALKS[1], "chunks": [[1000, 1], [2000, 1]], "chunk_of": [0, 1]},
        ],
        YAML,
        REFERENCES,
        ["stops before the end of 1 of 2 streams (ted_1, after 3.0 of 4.0 s)"],
    ),
    "an index that is missing": (
        [SENTENCES[0], SENTENCES[2]],
        "",
        "",
        ["the log lacks the streams of index 1"],
    ),
    "indices that are missing": (
        [{**one, "index": index} for one, index in zip(SENTENCES, (2, 3, 10**12), strict=True)],
        "",
        "",
        ["the log lacks the streams of index 0 to 1, 4 to 999999999999"],
    ),
    "output that ends long before the last segments": (
        [stream(0, "a", "Eins zwei.", 100.0, delays=[5000.0, 9000.0], elapsed=[])],
        "".join(f"- {{duration: 10.0, offset: {at}.0, wav: a.wav}}\n" for at in range(0, 60, 10)),
        "Eins zwei.\n" * 6,
        ["writes nothing for the last 5 segments of 1 of 1 streams (a)"],
    ),
    "delays after the end": (
        [{**one, "elapsed": []} for one in times(0, lambda delays: [*delays[:-1], 6000.0])],
        YAML,
        REFERENCES,
        ["delays of 6.00 s after the end of 4.00 s (ted_1)"],
    ),
    "a blank reference": (
        changed(SENTENCES, 1, reference=""),
        "",
        "",
        ["1 of 3 streams have a blank reference"],
    ),
    "a blank reference of a talk": (TALKS, YAML, REFERENCES.replace("Das ist gut.", ""), []),
    "decomposed references": (
        TALKS,
        YAML,
        NFD,
        ["2 of 9 units of the references differ from the output only in their Unicode form"],
    ),
    "decomposed output": (
        changed(TALKS, 0, prediction=unicodedata.normalize("NFD", TALKS[0]["prediction"])),
        YAML,
        REFERENCES,
        ["2 of 9 units of the references differ from the output only in their Unicode form"],
    ),
    "both decomposed": (
        changed(TALKS, 0, prediction=unicodedata.normalize("NFD", TALKS[0]["prediction"])),
        YAML,
        NFD,
        [],
    ),
}


@pytest.mark.parametrize("name", SCORED)
def test_a_fault_that_is_flagged(name: str, evaluate: Evaluate, here: Path) -> None:
    streams, yaml, texts, wanted = SCORED[name]
    flags = row_of(evaluated(evaluate, here, streams, yaml, texts), here)["flags"]
    kept = [flag for flag in flags if "at the end" not in flag or "delays" in flag]
    assert len(kept) == len(wanted), kept
    for flag, beginning in zip(kept, wanted, strict=True):
        assert flag.startswith(beginning)


def listed(yaml: str, texts: str, order: list[int]) -> tuple[str, str]:
    """A segment list and its references in another order."""
    return tuple(
        "".join(text.splitlines(keepends=True)[place] for place in order) for text in (yaml, texts)
    )  # type: ignore[return-value]


# LAAL of each segment by hand: the words of ted_1 are written every 4/7 s, those of ted_2 every
# second, and a translation at the pace of the source would be written every 1/2, 2/3 and 1 s.
LAGS = (
    sum(word * 4 / 7 - (word - 1) / 2 for word in (1, 2, 3, 4)) / 4,
    sum(word * 4 / 7 - 2 - (word - 5) * 2 / 3 for word in (5, 6, 7)) / 3,
    1.0,
)
# Streams, segment list and references that mean the same as TALKS, YAML and REFERENCES.
SAME: dict[str, tuple[Lines, str, str]] = {
    "segments in no order": (TALKS, *listed(YAML, REFERENCES, [1, 2, 0])),
    "joined logs of different talks": (changed(TALKS, 1, index=0), YAML, REFERENCES),
    "files of one name": (
        changed(changed(TALKS, 0, source=["/d/s/x/1.wav"]), 1, source=["/d/s/y/1.wav"]),
        YAML.replace("ted_1.wav", "x/1.wav").replace("ted_2.wav", "y/1.wav"),
        REFERENCES,
    ),
    "names that are numbers": (
        changed(changed(TALKS, 0, source=["0012.wav"]), 1, source=["20081117.10"]),
        YAML.replace("ted_1.wav", "0012").replace("ted_2.wav", "20081117.10"),
        REFERENCES,
    ),
    "names that are times": (
        changed(changed(TALKS, 0, source=["1:20"]), 1, source=["2026-11-28"]),
        YAML.replace("ted_1.wav", "1:20").replace("ted_2.wav", "2026-11-28"),
        REFERENCES,
    ),
    "names that are values": (
        changed(changed(TALKS, 0, source=["no"]), 1, source=["null"]),
        YAML.replace("ted_1.wav", "no").replace("ted_2.wav", "null"),
        REFERENCES,
    ),
    "a name that is escaped as in JSON": (
        changed(TALKS, 1, source=["talk \U0001f600.wav"]),
        YAML.replace("ted_2.wav", json.dumps("talk \U0001f600.wav")),
        REFERENCES,
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_what_means_the_same(name: str, evaluate: Evaluate, here: Path) -> None:
    row = row_of(evaluated(evaluate, here, *SAME[name]), here)
    assert row["flags"] == []
    assert row["scores"]["BLEU"] == pytest.approx(100)
    assert row["scores"]["StreamLAAL"] == pytest.approx(sum(LAGS) / 3)
    # the files of the row are read back with the same scores
    folder = here / row["instances"].rpartition("/")[0]
    (here / "row").symlink_to(here / "run" / folder.relative_to(here))
    again = ("system.log=row/instances.log", "data.segments=row/segments.yaml")
    done = evaluate(
        *("system=replay", "data=recorded", "logger=csv", "threads=1", "hydra.run.dir=again"),
        *(*again, "data.references=row/segments.ref"),
        tiny=False,
    )
    assert done.code == 0, done.err
    (second,) = json.loads((here / "again" / "results.json").read_text())
    assert second["scores"] == pytest.approx(row["scores"], abs=1e-6)


# Streams, segment list, references and the sentence.
REFUSED: dict[str, tuple[Lines, str, str, str]] = {
    "a negative delay": (
        times(0, lambda delays: [-3000.0, *delays[1:]]),
        YAML,
        REFERENCES,
        r"talk 'ted_1' has a delay of -3 s \(index 0\); it must be at least 0",
    ),
    "a negative elapsed time": (
        times(1, lambda elapsed: [-1.5, *elapsed[1:]], "elapsed"),
        YAML,
        REFERENCES,
        r"talk 'ted_2' has a elapsed time of -0.0015 s \(index 1\)",
    ),
    "a delay long after the end": (
        [stream(0, "a", "Ja.", 100.0, delays=[140_000.0])],
        "",
        "",
        r"talk 'a' has a delay of 140 s, long after the end of its source \(100 s\) \(index 0\)",
    ),
    "elapsed times in seconds": (
        times(0, lambda elapsed: [time / 1000 for time in elapsed], "elapsed"),
        YAML,
        REFERENCES,
        r"elapsed times up to 0.00401 s beside delays up to 4 s \(index 0\); are they seconds",
    ),
    "elapsed times in microseconds": (
        [{**one, "elapsed": [1000 * time for time in one["elapsed"]]} for one in TALKS],
        YAML,
        REFERENCES,
        "elapsed times up to 6020 s beside delays up to 6 s; are they in another unit",
    ),
    "delays in seconds": (
        [stream(0, "a", "Das ist gut.", 9.0, delays=[1.0, 2.0, 2.0])],
        "",
        "",
        "after 0.002 s of its 9 s .* are its delays seconds instead of milliseconds",
    ),
    "all times in seconds": (
        [stream(at, f"t{at}", "Das ist gut.", 0.003) for at in range(3)],
        "",
        "",
        "9 different units in 0.009 s of source; are its times seconds instead of milliseconds",
    ),
    "a delay that is true": (
        [stream(0, "a", "Ja.", 1.0, delays=[True])],
        "",
        "",
        "talk 'a' has 'delays' that are not a list of numbers",
    ),
    "a name with control characters": (
        [stream(0, "a\x1b[2J\u202e", "Ja.", 1.0)],
        "",
        "",
        "has a name that is not UTF-8 or has control characters; rename it",
    ),
    "the same talk twice": (
        [TALKS[0], {**TALKS[0]}],
        YAML,
        REFERENCES,
        "index 0 twice: two runs were written to one log",
    ),
    "a segment twice": (
        TALKS,
        *listed(YAML, REFERENCES, [0, 1, 1, 2]),
        r"segments.yaml, line 3: the segment from 2.00 to 4.00 s .*segments.yaml, line 2\) overlap",
    ),
    "no reference": (
        [{**one, "reference": ""} for one in SENTENCES],
        "",
        "",
        "Talk 'a' has no reference in 'de'",
    ),
    "a talk without any reference": (
        TALKS,
        YAML,
        "\n\nWir gehen.\n",
        "Talk 'ted_1' has no reference in 'de': all its segments are empty",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_fault_that_is_refused(name: str, evaluate: Evaluate, here: Path) -> None:
    *given, sentence = REFUSED[name]
    done = evaluated(evaluate, here, *given)
    assert done.code == 2
    (line,) = done.err.strip().split("\n")
    assert re.search(sentence, line)
    assert not (here / "run" / "results.json").exists()
