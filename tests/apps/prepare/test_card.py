"""The card of a prepared split: its numbers, its page, and the artifact in W&B."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import wandb

from tests.fixtures import processes
from zoo.apps.prepare.card import write_card
from zoo.apps.prepare.items import Item, Notes, new_item
from zoo.apps.prepare.statistics import quantity, statistics
from zoo.apps.prepare.steps.filters import Filters, FiltersStep
from zoo.apps.prepare.steps.trajectories import TrajectoriesStep
from zoo.data.corpora import Aligned
from zoo.runs.artifacts import dataset_artifact

FACTS = {"corpus": "<folder>"}


@pytest.fixture
def items(corpus: Path) -> list[Item]:
    """Three talks with two usable segments each, and one that is left out."""
    talks = Aligned(folder=str(corpus)).talks("train")
    *kept, last = map(new_item, talks)
    found = FiltersStep(Filters())(TrajectoriesStep()(kept))
    return [*found, Item(replace(last.talk, segments=()), (), problem="It <is> damaged.")]


class Page(HTMLParser):
    """Collects the names of elements and the addresses that a browser would load."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loaded += [value or "" for name, value in attrs if name == "src"]


def test_the_numbers_are_those_of_usable_segments(items: list[Item]) -> None:
    found = statistics("train", items, ["audio"])
    assert (found["talks"], found["segments"], found["usable_segments"]) == (3, 9, 6)
    assert found["hours"] == round(18 / 3600, 4)
    assert found["left_out_talks"] == {"talk/3": "It <is> damaged."}
    assert found["reasons"] == {"only sounds": {"segments": 3, "minutes": 0.03}}
    quantities = {one["name"]: one for one in found["quantities"]}
    assert quantities["words of a segment"]["mean"] == 2.5
    # from 0 to 0.25, 1.75 to 2, 2.5 to 3 and 4.5 to 6 s
    assert quantities["pauses between segments"]["mean"] == (0.25 + 0.25 + 0.5 + 1.5) / 4
    assert quantities["pauses between segments"]["count"] == 12
    lags = [note.scores["LAAL de"] for item in items for note in item.notes if note.scores]
    assert len(lags) == 6
    assert quantities["LAAL de"]["mean"] == pytest.approx(sum(lags) / 6, abs=1e-4)


def test_a_histogram_counts_every_value_once() -> None:
    values = [float(value) for value in range(1000)] + [1e6]
    found = quantity("x", "s", values)
    assert sum(found.counts) == 1001
    assert found.counts[0] == pytest.approx(found.width, abs=1)
    assert (found.minimum, found.maximum, found.median) == (0, 1e6, 500)
    assert sum(quantity("x", "s", [0.0, 0.0]).counts) == 2


def test_the_page_needs_no_other_file(items: list[Item], tmp_path: Path) -> None:
    write_card(tmp_path, "train", items, FACTS, ["audio"])
    text = (tmp_path / "train.card.html").read_text()
    page = Page()
    page.feed(text)
    assert page.loaded
    assert all(address.startswith("data:audio/mpeg;base64,") for address in page.loaded)
    assert not re.search(r"https?://|@import|url\(", text)
    assert page.tags.count("audio") == 6 + 1  # samples, and the first segment of the reason
    assert "It &lt;is&gt; damaged." in text
    assert "&lt;folder&gt;" in text
    assert "$" not in text
    assert json.loads((tmp_path / "train.card.json").read_text())["usable_segments"] == 6


def test_a_split_without_usable_segments_has_a_card(items: list[Item], tmp_path: Path) -> None:
    notes = (Notes("word times", "too short"),) * 3
    found = write_card(tmp_path, "dev", [replace(items[0], notes=notes)], FACTS, ["audio"])
    assert found["usable_segments"] == 0
    assert "No segment has a trajectory." in (tmp_path / "dev.card.html").read_text()


def test_the_command_writes_the_card(corpus: Path, tmp_path: Path) -> None:
    arguments = [
        "data=aligned",
        f"data.folder={corpus}",
        "prepare.folder=out",
        "prepare.splits=[train]",
        "logger.mode=disabled",
    ]
    done = processes.run("-m", "zoo", "prepare", *arguments, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "4 talks, 8 of 12 segments usable" in done.stdout
    assert (tmp_path / "out" / "train.card.html").is_file()
    [run] = (tmp_path / "outputs" / "prepare").iterdir()
    assert (run / "config.yaml").is_file()


def test_an_artifact_has_the_files_of_a_data_set(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text("{}\n")
    artifact: wandb.Artifact = dataset_artifact("my set/train", [path], metadata={"hours": 1})
    assert (artifact.name, artifact.type) == ("dataset-my-set-train", "dataset")
    assert list(artifact.manifest.entries) == ["train.jsonl"]
    assert artifact.metadata == {"hours": 1}
