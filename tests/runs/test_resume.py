"""A run is resumed with the configuration of its first start."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from zoo.base.errors import ZooError
from zoo.base.version import __version__
from zoo.runs.resume import check_same

CONFIG: dict[str, Any] = {
    "version": __version__,
    "seed": 1,
    "backbone": {"hidden": 8, "tokenizer": "a", "window": {"size": 9}},
    "threads": 1,
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    return tmp_path


def check(run: Path, **changes: Any) -> None:
    check_same(
        run, {**CONFIG, **changes}, keys=["seed", "backbone"], may_differ=["backbone.tokenizer"]
    )


def test_an_equal_configuration_is_accepted(run: Path) -> None:
    check(run)
    check(run, threads=2, backbone={**CONFIG["backbone"], "tokenizer": "moved"})


def test_the_first_other_value_is_named(run: Path) -> None:
    with pytest.raises(ZooError, match=r"was started with seed=1, not 2; leave it out, because"):
        check(run, seed=2)
    other = {**CONFIG["backbone"], "window": {"size": None}}
    with pytest.raises(ZooError, match=r"was started with backbone\.window\.size=9, not null"):
        check(run, backbone=other)
    with pytest.raises(ZooError, match=r"started with backbone\.hidden=8, not null"):
        check(run, backbone={"tokenizer": "a", "window": {"size": 9}})
    with pytest.raises(ZooError, match=r"started with backbone\.more=null, not 3"):
        check(run, backbone={**CONFIG["backbone"], "more": 3})


def test_another_version_and_a_damaged_run_are_refused(run: Path) -> None:
    (run / "config.yaml").write_text(yaml.safe_dump({**CONFIG, "version": "0.1.0"}))
    with pytest.raises(ZooError, match=r"started by version 0\.1\.0 .* start a new run"):
        check(run)
    (run / "config.yaml").write_text("[")
    with pytest.raises(ZooError, match=r"config\.yaml is missing or damaged"):
        check(run)
    with pytest.raises(ZooError, match=r"config\.yaml is missing or damaged"):
        check(run / "nowhere")
