"""Our scores of the logs in this folder equal those that other tools printed (numbers.json).

``tests/extras/interop/score_with_tools.py`` runs the tools; ``make_logs.py`` wrote the logs.
"""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from tests.metrics.parity.make_logs import FOLDER
from zoo.base.languages import language
from zoo.formats.logs import LogFormat, read_log
from zoo.formats.references import read_references
from zoo.metrics.longform import score_talks
from zoo.metrics.references import ReferenceSegment
from zoo.metrics.resegmentation import Resegmenter
from zoo.metrics.sentences import score_sentences
from zoo.metrics.signature import Score

NUMBERS = json.loads((FOLDER / "numbers.json").read_text(encoding="utf-8"))
CASES = [(tool, log) for tool in sorted(NUMBERS) for log in sorted(NUMBERS[tool]["scores"])]


@dataclass(frozen=True)
class Printed:
    """How a tool prints its scores.

    Attributes:
        decimals: Number of decimals.
        per_second: Unit of its times.
    """

    decimals: int
    per_second: int


PRINTED = {
    "simuleval": Printed(3, 1000),
    "omnisteval": Printed(4, 1000),
    "simulstream": Printed(12, 1),
}
# Scores that are no times.
PLAIN = ("BLEU", "chrF", "AP", "AP_CA", "LongAP", "LongAP_CA", "RTF")


def scored(tool: str, log: str) -> dict[str, Score]:
    """Our scores of a log with the rules of a tool."""
    target = language(log[:2])
    folder = FOLDER / target.code
    format: LogFormat = "simulstream" if log.endswith(".jsonl") else "simuleval"
    instances = read_log(FOLDER / log, language=target, format=format)
    settings: dict[str, Any] = {"language": target, "rules": tool}
    settings["convention"] = "chunk" if format == "simulstream" else "cumulative"
    if tool == "simuleval" or "sentences" in log:
        return score_sentences(instances, **settings)

    talks = read_references(folder / "segments.yaml", folder / "segments.ref", target=target.code)
    references = [
        [ReferenceSegment.of(one, target=target.code, talk=name) for one in talks[name]]
        for name in (instance.talk for instance in instances)
    ]
    settings["resegmenter"] = Resegmenter("soft" if tool == "omnisteval" else "mwer")
    return score_talks(instances, references, **settings).scores


@pytest.mark.parametrize(("tool", "log"), CASES)
def test_scores_are_those_of_the_tool_to_its_last_digit(tool: str, log: str) -> None:
    ours, printed = scored(tool, log), PRINTED[tool]
    half = 0.5 * 10**-printed.decimals
    for name, value in NUMBERS[tool]["scores"][log].items():
        found = ours[name].value
        assert found is not None, name
        found *= 1 if name in PLAIN else printed.per_second
        assert found == pytest.approx(value, rel=0, abs=half + 1e-9), name
