"""Loads the benchmark that a test file is named after; benchmarks are scripts, not modules."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))  # as when a benchmark runs as a script: it imports its helpers


def load_script(name: str) -> ModuleType:
    """``benchmarks/NAME.py``."""
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def script(request: pytest.FixtureRequest) -> ModuleType:
    """``benchmarks/NAME.py`` for ``test_NAME.py``."""
    return load_script(Path(request.path).stem.removeprefix("test_"))
