"""What a folder records of its system is data: names of parts and plain values."""

import os
import sys
from pathlib import Path

import pytest
import yaml

import zoo
from zoo.base.errors import LONGEST, ZooError
from zoo.config import build, compose
from zoo.config.records import FOLDER, of_system, record_of, registered_targets

RECORD = ["system=infinisst", "backbone=infinisst_minitalks", f"backbone.checkpoint={FOLDER}"]


def write_record(folder: Path, *lines: object) -> Path:
    """Write a ``config.yaml`` that records the overrides of InfiniSST and more lines."""
    folder.mkdir(exist_ok=True)
    content = {"evaluate": {"overrides": [*RECORD, *lines]}}
    (folder / "config.yaml").write_text(yaml.safe_dump(content))
    return folder


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with a policy and its YAML file, importable by a name of its own."""
    root = tmp_path / "site" / "records_zoo"
    (root / "conf" / "policy").mkdir(parents=True)
    (root / "__init__.py").write_text("")
    (root / "patient.py").write_text(
        "import os\n\nfrom zoo.policies.turn_taking import TurnTaking\n\n\n"
        "class Patient(TurnTaking):\n    pass\n"
    )
    (root / "conf" / "policy" / "patient.yaml").write_text("_target_: records_zoo.patient.Patient")
    monkeypatch.syspath_prepend(root.parent)
    yield root
    for name in [name for name in sys.modules if name.startswith("records_zoo")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("--config-dir=/somewhere", "is an option of a command line"),
        ("++synthesizer={_target_: torch.load}", "adds or removes a key"),
        ("+x=1", "adds or removes a key"),
        ("~policy", "adds or removes a key"),
        ("hydra.searchpath=[file:///x]", "sets no key of a system"),
        ("evaluation.comet_python=python", "sets no key of a system"),
        ("trusted_packages=[os]", "sets no key of a system"),
        ("policy=choice(alignatt,edatt)", "has several values"),
        ("policy=../policy/alignatt", "names no policy of"),
        ("policy@backbone=alignatt", "puts a choice of policy elsewhere"),
        ("system=simuleval_agent", "chooses what only a user may choose"),
        ("backbone=chat_server", "sends audio and a key to an address"),
        ("system=realtime", "chooses what only a user may choose"),
        ("synthesizer=xtts", "starts a program and reads a pickle"),
        ("synthesizer.python=python", "names a program"),
        ("synthesizer={python: python}", "names a program"),
        ("policy._target_=os.system", "names 'os.system', which is no part of the zoo"),
        ("policy._target_=zoo.base.disk.files.os.system", "no part of the zoo"),
        ("policy._target_=zoo.base.disk.files.append_line", "no part of the zoo"),
        ("policy={a: [{_target_: os.system}]}", "names 'os.system'"),
        ("policy._partial_=true", "sets _partial_, which changes how a class is called"),
        ("backbone.search={_args_: [3]}", "sets _args_"),
        ("system.name='${oc.env:HOME}'", "links to another value"),
        ("backbone.tokenizer=/etc", "names a path outside of the folder"),
        ("backbone.tokenizer=a/../../b", "names a path outside of the folder"),
        ("backbone.tokenizer=https://host/x", "names a path outside of the folder"),
        (f"backbone.tokenizer='{FOLDER}/x'", "inside of another value"),
        ("system.name='a\bb'", "contains control characters"),
        ("policy=alignatt\n++x=1", "is not key=value"),
        ("policy." + "a." * 1000 + "b=1", "sets no key of a system"),
        ("policy._target_=[a]", "which is no part of the zoo"),
        ("policy.frames=" + "1" * 5000, "is longer than 4000 characters"),
        ("backbone.decoder=" + "{a:" * 1000, "is not key=value"),
        ("backbone.template.latency='{multiplier:>20000000000}'", "formats more than {name}"),
        ("backbone.template.latency='{multiplier.__class__}'", "formats more than {name}"),
        ("system.name='a\x9bb'", "contains control characters"),
        ({"policy": "alignatt"}, "is no text"),
        (None, "is no text"),
    ],
)
def test_a_line_that_is_not_data_is_refused(line: object, reason: str, tmp_path: Path) -> None:
    folder = write_record(tmp_path / "export", line)
    with pytest.raises(ZooError) as raised:
        record_of(folder)
    message = str(raised.value)
    shown = repr(line)[:LONGEST] if isinstance(line, str) else f"a {type(line).__name__}"
    assert message.startswith(f"{folder}/config.yaml records {shown}, which ")
    assert reason in message
    assert "\n" not in message
    with pytest.raises(ZooError, match="the checkpoint is not used"):
        compose("evaluate", [f"backbone.checkpoint={folder}"])


@pytest.mark.parametrize(
    "line",
    [
        "policy=turn_taking",
        "backbone.search={beams: 4}",
        "backbone.search.beams=4",
        "backbone.template.latency='<|latency|>: {}\n'",
        "policy._target_=zoo.policies.turn_taking.TurnTaking",
        "target_language=zh",
        "convention=released",
        "synthesizer=none",
    ],
)
def test_plain_values_and_parts_of_the_zoo_are_accepted(line: str, tmp_path: Path) -> None:
    folder = write_record(tmp_path / "export", line)
    assert record_of(folder)[-1] == line


def test_a_line_that_the_user_replaces_is_not_read(tmp_path: Path) -> None:
    folder = write_record(tmp_path / "export", "backbone.tokenizer=/home/me/tokenizer")
    kept = record_of(folder, replaced=["backbone.tokenizer"])
    assert [line.partition("=")[0] for line in kept] == [
        "system",
        "backbone",
        "backbone.checkpoint",
    ]


@pytest.mark.parametrize("name", ["plain", "with space, 'quote' and ${oc.env:HOME}", "a=b,++c={d"])
def test_the_name_of_the_folder_is_a_text(name: str, tmp_path: Path) -> None:
    folder = write_record(tmp_path / name)
    cfg = compose("evaluate", record_of(folder))
    assert cfg.backbone.checkpoint == str(folder)


def test_no_choice_of_code_is_a_registered_part() -> None:
    names = {target.rpartition(".")[2] for target in registered_targets()}
    assert {"InfiniSST", "AlignAtt", "RecentWords", "Espeak", "StreamingSystem"} <= names
    assert not {"XTTS", "ChatServer", "SimulEvalAgent", "SimulstreamProcessor"} & names


def test_exports_record_the_system_only() -> None:
    command = ["--config-dir=/x", "hydra.searchpath=[file://x]", *RECORD, "data=mustc", "data.x=1"]
    assert of_system(command) == RECORD


def test_a_class_of_your_own_needs_your_word(package: Path, tmp_path: Path) -> None:
    folder = write_record(tmp_path / "export", "policy=patient")
    with pytest.raises(ZooError, match="names no policy of"):
        zoo.load(folder)
    trusted = zoo.load(folder, trusted_packages=["records_zoo"])
    assert type(trusted.policy).__name__ == "Patient"
    named = zoo.load(folder, config_dir=package / "conf")
    assert type(named.policy).__name__ == "Patient"

    write_record(folder, "policy._target_=records_zoo.patient.Patient")
    with pytest.raises(ZooError, match="packages of yours whose classes may be named"):
        zoo.load(folder)
    assert type(zoo.load(folder, trusted_packages=["records_zoo"]).policy).__name__ == "Patient"
    for target in ("records_zoo.patient.os.system", "records_zoo.patient.TurnTaking"):
        write_record(folder, f"policy._target_={target}")
        with pytest.raises(ZooError, match="which is no class of records_zoo"):
            zoo.load(folder, trusted_packages=["records_zoo"])
    for name in ("os", "nowhere", "../x"):
        with pytest.raises(ZooError, match="no package of yours"):
            zoo.load(folder, trusted_packages=[name])


def test_a_file_that_is_no_record_is_not_read(tmp_path: Path) -> None:
    folder = write_record(tmp_path / "export")
    path = folder / "config.yaml"
    path.write_text("a: &a {b: 1}\nc: {<<: *a}\n")
    with pytest.raises(ZooError, match="merge keys"):
        record_of(folder)
    path.write_text("#" * 2_000_000)
    with pytest.raises(ZooError, match="is larger than"):
        record_of(folder)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ZooError, match="does not state how to evaluate"):
        record_of(folder)


@pytest.mark.parametrize("name", ["zoo.apps.evaluate", "lightning.Trainer", "os.getcwd"])
def test_a_record_cannot_name_a_function(name: str, tmp_path: Path) -> None:
    record = ["system=streamatt", "history=voice_activity", f"history.detector.name={name}"]
    folder = write_record(tmp_path / "export")
    (folder / "config.yaml").write_text(yaml.safe_dump({"evaluate": {"overrides": record}}))
    with pytest.raises(ZooError, match=r"records no system of the zoo: .*detector\.name is"):
        zoo.load(folder)


def test_only_named_packages_are_built(package: Path) -> None:
    cfg = compose("evaluate", ["policy._target_=records_zoo.patient.Patient"])
    assert list(cfg.trusted_packages) == ["records_zoo"]
    assert type(build(cfg.policy)).__name__ == "Patient"
    cfg.trusted_packages = []
    with pytest.raises(ZooError, match=r"trusted_packages=\[records_zoo\] accepts it"):
        build(cfg.policy)
    cfg = compose("evaluate", ["policy._target_=zoo.base.disk.files.os.getcwd"])
    with pytest.raises(ZooError, match="does not belong to zoo"):
        build(cfg.policy)
    with pytest.raises(ZooError, match=r"must be a list of packages such as \[my_zoo\], not os"):
        compose("evaluate", ["trusted_packages=os"])
