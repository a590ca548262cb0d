"""How a measurement at real size is told: which size it was, two tables, one line of JSON. Measures nothing."""

import json
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table


def announce(size: str, where: str) -> None:
    """Say what is measured, and what a size that is not the real one does not tell."""
    note = "" if size.split()[0] == "real" else ": NOT the real size; it says nothing about that"
    print(f"size {size} on {where}{note}")


def show(parts: Table, facts: Mapping[str, float]) -> None:
    """Two tables: where the time went, and what else was measured."""
    numbers = Table("measured", "", box=None)
    for name, value in facts.items():
        numbers.add_row(name, f"{value:.4g}")
    console = Console()
    console.print(parts)
    console.print(numbers)


def print_line(settings: Mapping[str, Any], facts: Mapping[str, float]) -> None:
    """The last line, one JSON object."""
    rounded = {
        key: value if isinstance(value, int) else float(f"{value:.5g}")
        for key, value in facts.items()
    }
    print(json.dumps({**settings, **rounded}))
