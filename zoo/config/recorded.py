"""The recorded signatures of the zoo's parts, ``arguments.json``.

A configuration is completed and checked with them, without an import of the parts, which takes
seconds. ``python -m zoo.config.generate`` writes the file; a test compares it with the code. The
targets of other packages are recorded with a version, and imported with any other one.
"""

import json
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("arguments.json")


@cache
def read_signatures() -> dict[str, Any]:
    """Return the content of the file, without the targets of packages in other versions.

    Returns:
        ``targets``: by dotted path the arguments of a target as JSON, see
        ``zoo.config.signatures.arguments_json``. ``functions``: the functions that are defaults.
        ``versions``: of the other packages.
    """
    if not FILE.is_file():  # it is generated for the first time
        return {"targets": {}, "functions": [], "versions": {}}
    content: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    other = [name for name, number in content["versions"].items() if release(name) != number]
    targets = content["targets"].items()
    return {
        **content,
        "targets": {path: own for path, own in targets if path.partition(".")[0] not in other},
    }


def release(package: str) -> str:
    """Return the version of an installed package, without that of its build."""
    return version(package).partition("+")[0]
