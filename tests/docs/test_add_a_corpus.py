"""The corpus of docs/add_a_corpus.md is evaluated from outside the repository."""

import json
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.docs.test_docs import ROOT, blocks
from tests.fixtures import processes
from zoo.base.audio import files as audio
from zoo.config import BAD_INPUT
from zoo.data.minitalks import corpus as minitalks

PAGE = ROOT / "docs" / "add_a_corpus.md"
CHOSEN = ["--config-dir=my_zoo/conf", "data=tables", "data.folder=recordings"]
QUICK = ["device=cpu", "logger=csv", "threads=1"]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with the package of the page, and two talks of two segments in its layout."""
    [source] = [block for block in blocks(PAGE, "python") if "class Tables" in block]
    [choice] = blocks(PAGE, "yaml")
    (tmp_path / "my_zoo" / "conf" / "data").mkdir(parents=True)
    (tmp_path / "my_zoo" / "tables.py").write_text(source)
    (tmp_path / "my_zoo" / "conf" / "data" / "tables.yaml").write_text(choice)

    [talk] = minitalks.build("tst", talks=1)
    for split, name, first in (("tst", "a", 0), ("tst", "b", 2), ("train", "c", 4)):
        segments = talk.segments[first : first + 2]
        begin, end = segments[0].offset - 0.25, segments[-1].end + 0.25
        rows = [
            f"{s.offset - begin:.3f}\t{s.end - begin:.3f}\t{s.source}\t{s.targets['de'].text}\n"
            for s in segments
        ]
        folder = tmp_path / "recordings" / split
        folder.mkdir(parents=True, exist_ok=True)
        samples = audio.load(talk.file, start=talk.offset + begin, duration=end - begin)
        audio.write(folder / f"{name}.wav", samples)
        (folder / f"{name}.tsv").write_text("".join(rows), encoding="utf-8")
    return tmp_path


def run(package: Path, script: str, *overrides: str) -> CompletedProcess[str]:
    """The result of a command in the package's folder."""
    overrides = (*CHOSEN, *QUICK, *overrides)
    environment = {"PYTHONPATH": str(package)}
    return processes.run(ROOT / script, *overrides, folder=package, environment=environment)


def test_a_corpus_from_outside_is_evaluated(package: Path) -> None:
    done = run(
        package,
        "evaluate.py",
        "system=alignatt",
        "evaluation.knob_values=[4]",
        f"backbone.checkpoint={ROOT / 'checkpoints' / 'offline_minitalks_en-de'}",
        f"hydra.run.dir={package / 'run'}",
    )
    assert done.returncode == 0, done.stderr[-3000:]
    rows = json.loads((package / "run" / "results.json").read_text())
    assert [row["kind"] for row in rows] == ["system", "ceiling"]  # no oracle without word times
    assert {(row["data"], row["split"]) for row in rows} == {("tables", "tst")}
    assert rows[0]["scores"]["BLEU"] > 50


def test_training_names_what_the_corpus_lacks(package: Path) -> None:
    done = run(package, "train.py", "experiment=offline_minitalks", "training.dev_split=tst")
    assert done.returncode == BAD_INPUT
    reason = "lacks word times or a word alignment; align the corpus first"
    assert reason in done.stderr.splitlines()[-1]
    assert reason in PAGE.read_text(encoding="utf-8")
