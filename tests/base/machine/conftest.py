"""No launcher around a test of a launch."""

from collections.abc import Iterator

import pytest

from tests.runs.conftest import LAUNCHERS
from zoo.base.machine import launch


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The environment of a process that a user starts, and no name of a launch before it."""
    for name in LAUNCHERS:
        monkeypatch.delenv(name, raising=False)
    launch.launch_name.cache_clear()
    yield
    launch.launch_name.cache_clear()
