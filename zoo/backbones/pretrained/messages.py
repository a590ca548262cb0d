"""Suppresses what Transformers prints while parts are read and written."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from transformers.utils import logging


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress warnings about weights that are not loaded, and bars outside of a terminal."""
    verbosity = logging.get_verbosity()
    hook = logging.set_tqdm_hook(_bar_on_terminal)
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        logging.set_tqdm_hook(hook)


def _bar_on_terminal(bar: Callable[..., Any], args: Any, options: dict[str, Any]) -> Any:
    """Create a bar that only a terminal shows (``disable=None`` of tqdm)."""
    return bar(*args, **{"disable": None, **options})
