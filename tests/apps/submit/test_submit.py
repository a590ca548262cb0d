"""A submission: the best setting of each regime, its files, and what is refused."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml

import zoo
from zoo.apps.submit import job
from zoo.apps.submit.dockerfile import dockerfile
from zoo.base.audio import files as audio
from zoo.base.errors import ZooError
from zoo.base.types import SAMPLE_RATE
from zoo.runs.rows.regimes import with_regimes
from zoo.runs.rows.row import KnobValue, Row, write_rows

INSTRUCTIONS = {"ARG", "FROM", "RUN", "ENV", "WORKDIR", "COPY", "EXPOSE", "ENTRYPOINT", "CMD"}
SETTINGS = {2: (1.5, 20.0), 4: (1.9, 25.0), 8: (2.5, 24.0), 12: (9.0, 30.0)}  # f: LongYAAL, BLEU


def rows(settings: dict[int, tuple[float, float]] = SETTINGS) -> list[Row]:
    names = ("minitalks", "dev", "en", "de")
    found = []
    for f, (latency, bleu) in settings.items():
        scores = {"LongYAAL": latency, "StreamLAAL": latency, "BLEU": bleu, "chrF": 50.0}
        log = f"instances/f{f}/instances.log"
        found.append(Row("streamatt", KnobValue("f", f), *names, scores, {}, log))
    return with_regimes(found)


def written_run(run: Path, found: list[Row]) -> None:
    """A run folder as an evaluation leaves it."""
    for row in found:
        folder = (run / row.instances).parent
        folder.mkdir(parents=True)
        (folder / "simulstream.jsonl").write_text(f'{{"id": 0, "of": "{row.knob_label}"}}\n')
    write_rows(found, run / "results.json")


@pytest.fixture(scope="module")
def submission(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A submission of streamatt, whose evaluation is not streamed; tests only read it."""
    folder = tmp_path_factory.mktemp("submission")

    def evaluation(name: str, work: str) -> None:
        assert (name, work) == ("evaluate", "zoo.apps.evaluate.job:evaluate")
        assert "evaluation.split=dev" in sys.argv
        [run] = [item for item in sys.argv if item.startswith("hydra.run.dir=")]
        written_run(folder / run.partition("=")[2], rows())

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(job, "entry_point", evaluation)
        patch.setattr(job, "check_development", lambda cfg: None)
        patch.setattr(sys, "argv", ["submit"])
        job.main(["system=streamatt", "history=punctuation", "folder=out", "evaluation.talks=1"])
    return folder / "out"


@pytest.fixture
def refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Runs the command in a folder of its own and returns the error that it ends with."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> str:
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(SystemExit) as left:
            job.main(list(arguments))
        assert left.value.code == 2
        assert sorted(tmp_path.rglob("*")) == before  # nothing is written
        printed = capsys.readouterr().err
        assert printed.count("\n") == 1
        return printed

    return run


def test_the_best_setting_of_each_regime_is_submitted(submission: Path) -> None:
    logs = {path.name: path.read_text() for path in (submission / "logs").glob("*.jsonl")}
    assert {name: text.split('"')[-2] for name, text in logs.items()} == {
        "dev_low.jsonl": "f=4",
        "dev_high.jsonl": "f=8",
    }
    card = (submission / "README.md").read_text()
    assert "| low | f=4 | `low.yaml` | `logs/dev_low.jsonl` | 1.90 |" in card
    assert "| high | f=8 |" in card
    assert "Contact:" in card


def test_processors_name_the_system_its_setting_and_copied_weights(
    submission: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = yaml.safe_load((submission / "high.yaml").read_text())
    assert config["type"] == "zoo.extras.interop.simulstream.SystemProcessor"
    assert (config["system"], config["latency_unit"]) == ("streamatt", "spm")
    monkeypatch.chdir(submission)
    values = dict(item.split("=", 1) for item in config["overrides"])
    assert not any(key.startswith("evaluation") for key in values)
    system = zoo.load(config["system"], **values)
    assert system.name == "streamatt+history=punctuation"
    assert system.knob_value == 8
    for key, name in system.weights.items():
        assert (submission / name / "model.safetensors").is_file(), key


def test_weights_that_are_shared_are_copied_beside_them(submission: Path) -> None:
    copies = {path.name for path in (submission / "weights").iterdir()}
    assert copies == {"offline_minitalks_en-de", "infinisst_minitalks_en-de"}


def test_the_source_runs_by_itself(submission: Path) -> None:
    assert not list(submission.rglob("__pycache__"))
    code = "import zoo.config as config, zoo; print(zoo.__file__, config.CONF)"
    environment = {"PYTHONPATH": str(submission / "source"), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd="/", env=environment, capture_output=True, text=True
    )
    assert done.stdout.count(str(submission / "source" / "zoo")) == 2, done.stderr
    pins = (submission / "requirements.txt").read_text().splitlines()
    assert all(re.fullmatch(r"[\w.-]+(\[[\w,]+\])?==[\w.]+", pin) for pin in pins), pins
    assert {pin.partition("==")[0] for pin in pins} >= {"torch", "hydra-core", "simulstream"}


def test_the_dockerfile_copies_what_is_there(submission: Path) -> None:
    text = (submission / "Dockerfile").read_text().replace("\\\n", "")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert {line.split()[0] for line in lines} <= INSTRUCTIONS
    assert lines[0] == "ARG BASE=debian:bookworm-slim"
    assert lines[1] == "FROM ${BASE}"
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY")]
    assert len(copied) == 4
    for source in (source for sources in copied for source in sources):
        assert (submission / source).exists(), source
    named = re.findall(r"\$\{(\w+)\}", text)
    assert set(named) <= {*re.findall(r"^ARG (\w+)=", text, flags=re.MULTILINE), "PATH"}


def test_hadolint_finds_nothing(submission: Path) -> None:
    if (program := shutil.which("hadolint")) is None:
        pytest.skip("hadolint is not installed")
    done = subprocess.run([program, submission / "Dockerfile"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_weights_of_a_hub_are_downloaded_when_the_image_is_built() -> None:
    text = dockerfile(["low"], ["openai/whisper-base", "a/b@main"], has_weights=False)
    assert "snapshot_download('openai/whisper-base')" in text
    assert "snapshot_download('a/b', revision='main')" in text
    assert "COPY weights" not in text


def test_a_system_without_a_regime_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written_run(tmp_path / "run", rows({2: (4.5, 20.0), 4: (6.0, 21.0)}))
    with pytest.raises(ZooError, match=r"No setting is in a regime, .* \(f=2 4\.50 s, f=4 6\.00 s"):
        job.submit(tmp_path / "run", tmp_path / "out", ["system=streamatt"])
    assert not (tmp_path / "out").exists()


REFUSED = {  # folders that the evaluation would be in vain for
    "out": "folder=out is not empty; name a new folder.",
    "outputs": "folder=outputs would contain the run folder outputs/submit/",
    ".": "folder=. is not empty; name a new folder.",
    "link": "folder=link is a link; name a new folder.",
    "dangling": "folder=dangling is a link; name a new folder.",
    "no/out": "folder=no/out cannot be made: there is no folder no.",
    "file/out": "folder=file/out: ",
    "x" * 250: "folder needs a name of 1 to 200 bytes that can be printed, not 'xxx",
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_folders_are_refused_before_the_evaluation(
    name: str, tmp_path: Path, refusal: Callable[..., str]
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    (tmp_path / "dangling").symlink_to("nowhere")
    error = refusal("system=streamatt", f"folder={name}")
    assert error.startswith(f"error: {REFUSED[name]}")


@pytest.mark.parametrize("typed", ["hydra.run.dir=mine", "resume=mine", "smoke=true"])
def test_what_the_command_sets_itself_is_refused(typed: str, refusal: Callable[..., str]) -> None:
    sentence = f"submit evaluates the system in a new run folder; leave out {typed}."
    assert refusal("system=streamatt", "folder=out", typed) == f"error: {sentence}\n"


def test_weights_that_cannot_be_copied_are_refused_before_the_evaluation(tmp_path: Path) -> None:
    for parent in ("a", "b"):
        (tmp_path / parent / "weights").mkdir(parents=True)
    folders = {name: str(tmp_path / name / "weights") for name in ("a", "b")}
    with pytest.raises(ZooError, match="Two folders of weights have the name weights"):
        job.check_content(folders)


def test_development_talks_without_references_are_refused(
    tmp_path: Path, refusal: Callable[..., str]
) -> None:
    audio.write(tmp_path / "a.wav", torch.zeros(SAMPLE_RATE * 2))
    (tmp_path / "list.yaml").write_text("- {offset: 0.0, duration: 1.0, wav: a.wav}\n")
    error = refusal("folder=out", "data=iwslt", "data.segments=list.yaml")
    assert "development talks of data=iwslt have no references" in error


@pytest.mark.parametrize("typed", ["evaluation.development=dev2", "evaluation.view=segments"])
def test_only_whole_talks_of_one_set_are_streamed(typed: str, refusal: Callable[..., str]) -> None:
    error = refusal("system=streamatt", "folder=out", typed)
    assert "streams the whole talks of one development set" in error
