"""docs/papers.md has every table and figure of the papers, and its comparisons are complete."""

import re

import pytest

from tests.docs.test_docs import ROOT, commands, overrides
from zoo.config import build, compose, plain
from zoo.config.size import LINK
from zoo.evaluation import comparison, left_out
from zoo.extras.xtts.xtts import XTTS
from zoo.systems.base import StreamingSystem

PAGE = ROOT / "docs" / "papers.md"
PARTS = {  # numbers of the tables and figures of each paper
    "InfiniSST": (range(1, 5), range(1, 11)),
    "StreamUni": (range(1, 9), range(1, 6)),
    "SimulU": (range(1, 4), range(1, 3)),
}
EVALUATIONS = sorted(
    {rest for page, name, rest in commands() if (page, name) == (PAGE.name, "evaluate")}
)


def numbers(text: str, noun: str) -> set[int]:
    """The numbers in phrases such as "Figures 3, 4 and 8"."""
    phrases = re.findall(rf"\b{noun}s? ([\d, and]+)", text)
    return {int(number) for phrase in phrases for number in re.findall(r"\d+", phrase)}


@pytest.mark.parametrize("paper", PARTS)
def test_every_table_and_figure_has_a_place(paper: str) -> None:
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {paper}\n")[2].partition("\n## ")[0]
    tables, figures = PARTS[paper]
    assert set(tables) - numbers(text, "Table") == set()
    assert set(figures) - numbers(text, "Figure") == set()


@pytest.mark.parametrize("rest", EVALUATIONS)
def test_all_systems_of_a_comparison_compose(rest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = overrides(rest)
    cfg = compose("evaluate", given)
    for module in (comparison, left_out):
        monkeypatch.setattr(module, "overrides", lambda: given)
    monkeypatch.setattr(XTTS, "check", lambda self, target: None)  # placeholders are no files
    if "size=published" in given:
        links = plain(cfg, resolve=False)["compare"].values()
        assert all(any(LINK in item for item in entry) for entry in links)
    # ``system_configurations`` raises ZooError for a typed value without an effect.
    for configuration in comparison.system_configurations(cfg):
        system = build(configuration.system)
        assert isinstance(system, StreamingSystem)
        for value in cfg.evaluation.knob_values or (system.knob.values if system.knob else ()):
            system.check_knob(value)
