"""From the command line to a job: names, folders, exit codes. The job here does next to nothing."""

import re
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import torch
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from zoo import config
from zoo.base.errors import INTERRUPTED, ZooError
from zoo.base.machine import launch
from zoo.base.machine.commands import run_script
from zoo.config import (
    Config,
    build,
    compose,
    entry_point,
    is_multirun,
    machine,
    overrides,
    plain,
    run_folder,
)
from zoo.evaluation.comparison import system_configurations

Launch = Callable[..., int]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launch:
    """``start(job, "key=value", ...)`` runs a job in an empty folder and returns its exit code."""
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    monkeypatch.chdir(tmp_path)

    def run(job: Callable[[Config], None], *given: str, name: str = "evaluate") -> int:
        launch.launch_name.cache_clear()
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *given])
        try:
            monkeypatch.setattr("zoo.config.job.resolve_name", lambda name: job)
            entry_point(name, "any.module:job")
        except SystemExit as left:
            return int(left.code or 0)
        return 0

    return run


def test_ctrl_c_ends_a_job_without_a_traceback(start: Launch, tmp_path: Path) -> None:
    def job(cfg: Config) -> None:
        raise KeyboardInterrupt

    assert start(job) == INTERRUPTED
    assert not list(tmp_path.rglob("*.log"))


def test_characters_that_a_terminal_lacks_are_escaped(
    start: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = TextIOWrapper(BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    assert start(lambda cfg: print("银行")) == 0
    run_script(lambda: print("Tür"))
    terminal.flush()
    written = cast("BytesIO", terminal.buffer).getvalue()
    assert written == b"\\u94f6\\u884c\nT\\xfcr\n"


@pytest.mark.parametrize("name", ["evaluate", "train"])
def test_a_job_has_its_folder_and_overrides(start: Launch, name: str, tmp_path: Path) -> None:
    seen: list[object] = []

    def job(cfg: Config) -> None:
        seen.extend([overrides(), is_multirun(), cfg.seed, run_folder()])
        (run_folder() / "result").touch()

    assert start(job, "seed=3", name=name) == 0
    assert seen[:3] == [["seed=3"], False, 3]
    (folder,) = (tmp_path / "outputs" / name).iterdir()
    assert seen[3] == folder
    assert [path.name for path in folder.iterdir()] == ["result"]


def test_the_jobs_of_a_multirun_share_a_launch_folder(start: Launch, tmp_path: Path) -> None:
    seen: list[tuple[object, ...]] = []

    def job(cfg: Config) -> None:
        seen.append((overrides(), is_multirun(), run_folder().name, run_folder().parent))
        (run_folder() / "result").touch()  # a folder without files is removed

    assert start(job, "-m", "seed=4,5") == 0
    (launched,) = (tmp_path / "outputs" / "evaluate").iterdir()
    assert seen == [(["seed=4"], True, "0", launched), (["seed=5"], True, "1", launched)]


def test_an_error_leaves_no_files_and_exits_with_2(
    start: Launch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def job(cfg: Config) -> None:
        assert run_folder().is_dir()
        raise ZooError("This is wrong; choose that.")

    assert start(job) == 2
    assert capsys.readouterr().err == "error: This is wrong; choose that.\n"
    assert list(tmp_path.iterdir()) == []
    assert start(job, "hydra.run.dir=a/b/c") == 2
    assert list(tmp_path.iterdir()) == []


def test_a_late_error_keeps_the_files_written_before(start: Launch, tmp_path: Path) -> None:
    def job(cfg: Config) -> None:
        (run_folder() / "results.json").write_text("[]")
        raise ZooError("Too late.")

    assert start(job, "hydra.run.dir=mine") == 2
    assert (tmp_path / "mine" / "results.json").read_text() == "[]"


def test_an_internal_error_is_not_reported_as_a_user_error(start: Launch) -> None:
    def job(cfg: Config) -> None:
        raise FileNotFoundError("a bug")

    with pytest.raises(FileNotFoundError, match="a bug"):
        start(job)


def test_hydra_s_own_words_are_one_line(start: Launch, capsys: pytest.CaptureFixture[str]) -> None:
    for given, words in (
        (
            ("system=infinisst,other",),
            "system=infinisst,other has several values; add -m for a job each, ",
        ),
        (("~nonsense",), "Unknown key 'nonsense'; choose one of: data, size, backbone, "),
        (("backbone=3",), "backbone=3 must name a choice of backbone, one of: canary, cascade, "),
        (("+seed=1",), "The key 'seed' exists; write seed=... without +."),
        (
            ("evaluation.talks.x=1",),
            "Unknown key 'evaluation.talks.x'; evaluation.talks has no keys",
        ),
    ):
        assert start(lambda cfg: None, *given) == 2
        err = capsys.readouterr().err
        assert err.startswith(f"error: {words}"), err
        assert err.count("\n") == 1


def test_composing_inside_of_a_job(start: Launch) -> None:
    seen: list[object] = []

    def job(cfg: Config) -> None:
        seen.append(compose("train", ["seed=9"]).seed)
        seen.append(cfg.seed)
        seen.append(overrides())
        assert GlobalHydra.instance().is_initialized()

    assert start(job, "seed=2") == 0
    assert seen == [9, 2, ["seed=2"]]


def test_a_wrong_configuration_is_an_error_of_one_sentence() -> None:
    with pytest.raises(
        ZooError, match=r"^Unknown key 'evaluation\.nonsense'; choose one of: evaluation\.split, "
    ):
        compose("evaluate", ["seed=1", "evaluation.nonsense=1"])
    with pytest.raises(
        ZooError, match=r"^Unknown system 'nonsense'; choose one of: alignatt, doa, edatt, "
    ):
        compose("evaluate", ["system=nonsense"])


@pytest.mark.parametrize(
    ("name", "given", "sentence"),
    [
        ("translate", "inputs={a:b}", "inputs takes a list such as [A,B], not a mapping."),
        ("translate", "inputs.a=b", "inputs is a list, without keys; set all of it, such as "),
        ("evaluate", "evaluation.comet={a:b}", "evaluation.comet takes a list such as [A,B], not"),
        ("train", "training.curriculum=[a]", "training.curriculum takes a mapping such as {stages"),
        ("prepare", "audio=[a]", "audio takes a mapping such as {damaged: VALUE}."),
        ("prepare", "audio=1", "audio takes a mapping such as {damaged: VALUE}."),
    ],
)
def test_lists_and_mappings_are_not_mixed_up(name: str, given: str, sentence: str) -> None:
    with pytest.raises(ZooError, match=f"^{re.escape(f'{given}: {sentence}')}"):
        compose(name, [given])


@pytest.mark.parametrize("given", ["system=[infinisst]", "evaluation=[1]", "trainer=3"])
def test_a_group_takes_names(given: str) -> None:
    group = given.partition("=")[0]
    with pytest.raises(ZooError, match=rf"^{re.escape(given)} must name a choice of {group}, one "):
        compose("evaluate", [given])


def test_a_group_of_several_choices_takes_a_list() -> None:
    metrics = compose("evaluate", ["metric=[chrfpp,ter]"]).evaluation.metrics
    assert set(metrics) == {"chrFpp", "TER"}


def test_machine() -> None:
    threads = torch.get_num_threads()
    try:
        assert machine(compose("evaluate", ["threads=1", "device=cpu"])) == torch.device("cpu")
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(threads)
    with pytest.raises(ZooError, match="seed must be a whole number of at least 0, not -1"):
        machine(compose("evaluate", ["seed=-1"]))
    with pytest.raises(ZooError, match=r"threads must be a whole number of at least 1, not True"):
        machine(compose("evaluate", ["threads=true"]))


def test_a_constructor_that_refuses_is_one_sentence() -> None:
    with pytest.raises(ZooError, match=r"needs frames of at least 1, not 0"):
        build(compose("evaluate", ["policy=alignatt", "policy.frames=0"]).policy)
    with pytest.raises(ZooError, match=r"^policy\.frames must be a whole number, not 'x'\.$"):
        build(compose("evaluate", ["policy=alignatt", "policy.frames=x"]).policy)
    with pytest.raises(ZooError, match=r"^policy\.frames must be given: a whole number\.$"):
        build(compose("evaluate", ["policy=alignatt", "~policy.frames"]).policy)


def test_plain_is_resolved() -> None:
    values = plain(compose("evaluate", ["target_language=zh"]))
    assert values["system"]["target_language"] == "zh"
    assert "hydra" not in values


def test_the_choices_of_a_job_are_overrides(monkeypatch: pytest.MonkeyPatch) -> None:
    choices = {"system": "streamatt", "backbone": "infinisst_minitalks", "data": "minitalks"}
    runtime = SimpleNamespace(runtime=SimpleNamespace(choices=choices))
    monkeypatch.setattr(HydraConfig, "get", lambda: runtime)
    assert config.choice_overrides("system", "backbone") == [
        "system=streamatt",
        "backbone=infinisst_minitalks",
    ]


@pytest.mark.parametrize(
    ("given", "key", "value"),
    [
        (["backbone=infinisst", "backbone.encoder.window=12"], "backbone.encoder.window", 12),
        (["backbone=qwen_minitalks", "backbone.lora.rank=8"], "backbone.lora.rank", 8),
        (["backbone.search.lookback=100"], "backbone.search.lookback", 100),
        (["logger=csv", "logger.tags=[a]"], "logger.tags", ["a"]),
        (["recogniser.batch_size=4"], "recogniser.batch_size", 4),
    ],
)
def test_every_argument_can_be_overridden(given: list[str], key: str, value: object) -> None:
    assert OmegaConf.select(compose("evaluate", ["system=infinisst", *given]), key) == value


def test_a_part_that_is_null_is_created_with_its_defaults() -> None:
    given = ["training.objectives.trajectories.sampling.utterances=0.5"]
    sampling = compose("train", given).training.objectives.trajectories.sampling
    assert sampling._target_ == "zoo.data.robust_segments.RobustSegmentConfig"
    assert (sampling.utterances, sampling.encoded) == (0.5, False)
    given = ["backbone=phi4_minitalks", "backbone.lora={rank: 4}"]
    assert compose("evaluate", given).backbone.lora.alpha == 640


def test_the_error_for_an_unknown_key_names_the_valid_keys() -> None:
    for given, sentence in (
        (
            [
                "system=streamatt",
                "backbone=cascade",
                "backbone@backbone.transcriber=voxtral_realtime",
                "backbone.transcriber.nonsense=1",
            ],
            r"Unknown key .*: backbone\.transcriber\.name, backbone\.transcriber\.delay, ",
        ),
        (["backbone.encoder.windw=1"], r"Unknown key 'backbone\.encoder\.windw'; choose one of: "),
        (
            ["backbone.serch.beams=1"],
            r"Unknown key 'backbone\.serch'; choose one of: backbone\.window",
        ),
        (["training.devices=2"], r"Unknown key 'training'; choose one of: data, size, backbone, "),
        (
            ["backbone=qwen_minitalks", "backbone.lora.rnk=1"],
            r"Unknown key 'backbone\.lora\.rnk'; choose one of: backbone\.lora\.rank, ",
        ),
    ):
        with pytest.raises(ZooError, match=f"^{sentence}"):
            compose("evaluate", given)


def test_a_key_of_another_choice_names_that_choice() -> None:
    with pytest.raises(ZooError, match=r"^Unknown key 'data\.root'; it is a key of data=.*mustc"):
        compose("evaluate", ["data.root=x"])
    with pytest.raises(
        ZooError,
        match=r"^Unknown key 'policy\.frames'; it is a key of policy=alignatt "
        r"\(system=alignatt, doa, simulu, streamatt, streamatt_plus\), "
        r"and the keys here are: policy\.min_start\.$",
    ):
        compose("evaluate", ["policy.frames=4"])
    with pytest.raises(
        ZooError, match=r"^Unknown key 'system\.log'; it is a key of system=replay, "
    ):
        compose("evaluate", ["system.log=x"])


def test_an_unknown_key_at_the_top_needs_no_import_of_torch(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom zoo.config import compose\nfrom zoo.base.errors import ZooError\n"
        "for given in ('sed=3', 'system=x'):\n"
        "    try:\n        compose('evaluate', [given])\n"
        "    except ZooError as error:\n        print(error)\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    first, second = done.stdout.splitlines()
    assert first.startswith("Unknown key 'sed'; choose one of: data, size, backbone, ")
    assert second.startswith("Unknown system 'x'; choose one of: alignatt, ")


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (["system=streamatt"], "streamatt"),
        (["system=streamatt", "policy=alignatt"], "streamatt"),
        (["system=local_agreement", "policy=wait_k"], "local_agreement+policy=wait_k"),
        (
            ["system=streamatt", "history=punctuation", "backbone=lst_minitalks"],
            "streamatt+backbone=lst_minitalks+history=punctuation",
        ),
        (
            ["system=streamuni", "backbone=cascade", "backbone@backbone.transcriber=lst"],
            "streamuni+backbone=cascade+transcriber=lst",
        ),
        (["convention=released"], "infinisst+convention=released"),
        (["system=wait_k", "policy=alignatt", "system.name=mine"], "mine"),
        (["system=replay"], "replay"),
    ],
)
def test_a_system_is_named_after_what_runs(given: list[str], name: str) -> None:
    assert compose("evaluate", given).system.name == name


def test_a_compared_system_names_the_parts_chosen_for_all(start: Launch) -> None:
    names: list[str] = []

    def job(cfg: Config) -> None:
        names.extend(str(choice.system.name) for choice in system_configurations(cfg))
        (run_folder() / "result").touch()

    entries = "compare={one: ['system=wait_k', 'policy=alignatt'], two: ['system=streamatt']}"
    assert start(job, entries) == 0
    assert start(job, entries, "policy=wait_k", "backbone=lst_minitalks") == 0
    assert names == [
        "one",
        "two",
        "one+backbone=lst_minitalks",
        "two+backbone=lst_minitalks+policy=wait_k",
    ]


@pytest.mark.parametrize("backbone", ["whisper", "seamless_m4t", "seamless_m4t_v2"])
def test_weights_of_named_models_have_half_the_size_on_a_gpu(backbone: str) -> None:
    found = {}
    for device in ("cpu", "cuda", "cuda:1"):
        cfg = compose("evaluate", ["system=streamatt", f"backbone={backbone}", f"device={device}"])
        found[device] = build(cfg.backbone).dtype
    assert found == {"cpu": torch.float32, "cuda": torch.float16, "cuda:1": torch.float16}


def test_a_gpu_multiplies_in_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine may have none: the device is only named."""
    chosen: list[str] = []
    monkeypatch.setattr(torch, "set_float32_matmul_precision", chosen.append)
    monkeypatch.setattr(torch, "zeros", lambda *_, **__: torch.ones(1))
    for device in ("cpu", "cuda"):
        machine(compose("evaluate", [f"device={device}", "threads=null"]))
    assert chosen == ["high"]


def test_a_changed_file_is_read_again_and_a_composition_changes_no_other(tmp_path: Path) -> None:
    file = tmp_path / "experiment" / "mine.yaml"
    file.parent.mkdir()
    values = []
    for words, given in ((1, []), (1, ["seed=5"]), (1, []), (20, [])):
        file.write_text(f"# @package _global_\nevaluation:\n  knob_values: [{words}]\n")
        cfg = compose("evaluate", ["experiment=mine", *given], [tmp_path])
        values.append((cfg.evaluation.knob_values[0], cfg.seed))
    assert values == [(1, 0), (1, 5), (1, 0), (20, 0)]
