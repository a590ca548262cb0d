"""Runs the targets on examples that hypothesis draws, the same ones every time."""

import contextlib
import tempfile
import traceback
import warnings
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings

from tests.fixtures.judge import judge
from tests.fuzz.targets import Target
from zoo.base.errors import ZooError


def find_crash(target: Target, examples: int, *, judged: bool = False) -> str:
    """Call a target with examples.

    Args:
        target: What is called.
        examples: Number of examples.
        judged: Whether the judge of ``tests.fixtures`` makes foreign code a crash. It sees all that
            a process does, so that it is for a process that does nothing else.

    Returns:
        The smallest example that crashes and its traceback; empty if there is none.
    """
    last: list[object] = []

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(target.examples)
    def check(example: object) -> None:
        last[:] = [example]
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of libraries, about the values
            judging = judge(allowed_writes=[Path(folder)]) if judged else contextlib.nullcontext()
            with contextlib.suppress(ZooError), judging:
                target.call(example, Path(folder))

    try:
        check()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        frames = "".join(traceback.format_exception(error)[-5:])
        return f"{last[0]!r}\n{frames}"
    return ""
