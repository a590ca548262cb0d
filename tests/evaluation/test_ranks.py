"""Several ranks give the words, delays and scores of one process, and one run folder."""

import json
import shutil
import signal
from pathlib import Path

import pytest

from benchmarks.harness import streams_without_clock
from tests.evaluation.conftest import TINY, Evaluate
from tests.fixtures import processes

SCRIPT = processes.ROOT / "evaluate.py"
ROW = Path("instances") / "00-infinisst-m2"
OPTIONS = [
    "evaluation.talks=1",
    "evaluation.view=segments",
    "evaluation.knob_values=[2]",
    "evaluation.upper_bound=false",
    "evaluation.oracle_k=[]",
    "device=cpu",
    "logger=csv",
]


@pytest.fixture(scope="module")
def job(model: Path) -> list[str]:
    """The overrides of an evaluation of the segments of a talk: enough for two ranks to share."""
    return [*TINY, f"backbone.checkpoint={model}", *OPTIONS]


@pytest.fixture(scope="module")
def single(job: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of one process."""
    folder = tmp_path_factory.mktemp("ranks") / "single"
    evaluate(folder, *job)
    return folder


def evaluate(folder: Path, *overrides: str, launcher: tuple[str, ...] = ()) -> str:
    """Run evaluate.py into ``folder`` and return what it prints on stderr."""
    command = [*launcher, SCRIPT, *overrides, f"hydra.run.dir={folder}"]
    done = processes.run(*command, folder=folder.parent, environment={"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr


def scores(folder: Path) -> dict[str, float]:
    """The scores that do not depend on the clock."""
    (row,) = json.loads((folder / "results.json").read_text())
    return {
        name: value
        for name, value in row["scores"].items()
        if not name.endswith("_CA") and name != "RTF"
    }


def test_the_streams_have_words(single: Path) -> None:
    """Otherwise the comparisons below would prove nothing."""
    lines = (single / ROW / "streams.jsonl").read_text().splitlines()
    assert len(lines) > 10
    assert len({json.dumps(stream) for stream in streams_without_clock(single)}) > 1
    assert scores(single)


@pytest.mark.parametrize(
    ("overrides", "launcher"),
    [
        (["trainer.devices=2"], ()),
        ([], ("-m", "torch.distributed.run", "--nproc_per_node=2", "--standalone")),
    ],
    ids=["devices", "torchrun"],
)
def test_two_ranks_equal_one(
    single: Path, job: list[str], tmp_path: Path, overrides: list[str], launcher: tuple[str, ...]
) -> None:
    printed = evaluate(tmp_path / "run", *job, *overrides, launcher=launcher)
    assert printed.count("Initializing distributed") == 1, "not once per handler and rank"
    assert streams_without_clock(tmp_path / "run") == streams_without_clock(single)
    assert scores(tmp_path / "run") == scores(single)
    # Not the number of logs: ranks claim talks, and a late one may find none left.
    (row,) = json.loads((tmp_path / "run" / "results.json").read_text())
    assert row["settings"]["ranks"] == 2


def test_a_run_of_one_process_is_resumed_by_two(
    single: Path, job: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(single, folder)
    log = folder / ROW / "streams.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:3]) + lines[3][:50])
    overrides = [*job, f"hydra.run.dir={folder}", f"resume={folder}"]
    for rank in processes.launch(SCRIPT, *overrides, folder=tmp_path, ranks=2):
        output, _ = rank.communicate()
        assert rank.returncode == 0, output[-3000:]
    assert streams_without_clock(folder) == streams_without_clock(single)
    assert log.read_bytes().startswith(b"".join(lines[:3]))
    finished = list((folder / ROW).glob("streams*.jsonl"))
    assert sum(path.read_bytes().count(b"\n") for path in finished) == len(lines)


def test_another_configuration_is_refused_with_the_difference(
    single: Path, evaluate: Evaluate
) -> None:
    done = evaluate("evaluation.batch_size=2", f"resume={single}", tiny=False)
    assert done.code == 2
    assert "was started with evaluation.batch_size=1, not 2" in done.err


def test_rank_0_goes_on_when_another_rank_dies(
    single: Path, job: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMULZOO_LAUNCH", "dying")
    folder = tmp_path / "run"
    dying = f"{{_target_: tests.fixtures.dying.RankOneDies, mark: {tmp_path / 'died'}}}"
    overrides = [*job, f"hydra.run.dir={folder}", f"trainer.callbacks=[{dying}]"]
    first, second = processes.launch(SCRIPT, *overrides, folder=tmp_path, ranks=2)
    output, _ = first.communicate()
    second.communicate()
    assert second.returncode == -signal.SIGKILL
    assert first.returncode == 0, output[-3000:]
    assert streams_without_clock(folder) == streams_without_clock(single)
    assert scores(folder) == scores(single)
