"""The fixtures of all tests of backbones."""

from tests.backbones.conftest import _one_thread, folders

__all__ = ["_one_thread", "folders"]
