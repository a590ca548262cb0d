"""Options for the seed and the order of tests; the same process state at the start of each test.

A test must not depend on what ran before it, on a seed that it does not set, or on the number of
threads: ``pytest --seed 1 --shuffle`` with ``OMP_NUM_THREADS=2`` checks that.
"""

import gc
import os
import pwd
import random
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.fixtures.disk import small_disk

THREADS = int(os.environ.setdefault("OMP_NUM_THREADS", "1"))  # tiny networks gain nothing from more


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--seed",
        type=int,
        default=0,
        help="of torch, numpy and random when a test or a shared fixture starts",
    )
    parser.addoption(
        "--shuffle",
        action="store_true",
        help="run the files, and the tests of each file, in an order drawn from --seed",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--shuffle"):
        return
    order = random.Random(config.getoption("--seed"))
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    groups = list(files.values())
    order.shuffle(groups)
    for group in groups:
        order.shuffle(group)
    items[:] = [item for group in groups for item in group]


def _seed(config: pytest.Config) -> None:
    seed: int = config.getoption("--seed")
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  the generator that libraries share
    torch.manual_seed(seed)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef, request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """A fixture that several tests share is the same whichever of them runs first."""
    if fixturedef.scope != "function":
        _seed(request.config)
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Seeds the generators, and restores the process state that a test may have changed."""
    environment, folder = dict(os.environ), Path.cwd()
    torch.set_num_threads(THREADS)
    _seed(item.config)
    try:
        return (yield)
    finally:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        torch.set_default_dtype(torch.float32)
        torch.set_grad_enabled(True)
        _forget_rank()


def _forget_rank() -> None:
    """Remove the rank that a Trainer took from a launcher's variables: others write no logs."""
    module = sys.modules.get("lightning.fabric.utilities.rank_zero")
    if module is not None:
        module.rank_zero_only.rank = 0


@pytest.fixture(scope="module", autouse=True)
def _only_new_objects_are_collected() -> None:
    """Leave what lives longer than a file of tests out of garbage collections.

    These are the objects of the imported libraries. To look at each of them in each collection
    takes a tenth of the time of all tests.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 16 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    with small_disk(folder):
        yield folder


@pytest.fixture
def _no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """No home folder, as in a container whose user has a number but no name."""

    def unknown(number: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
