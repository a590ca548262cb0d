"""The history that forgets nothing."""

from tests.history.streams import answered, session
from zoo.base.types import Cut
from zoo.history.keep_all import KeepAll


def test_keep_all_keeps_all() -> None:
    stream = session(1000, prefix=50)
    assert KeepAll().onset(stream) == 0
    assert KeepAll().boundary(stream) is None
    assert KeepAll().trim(stream, answered("w" * 50, [0] * 50)) == Cut()
