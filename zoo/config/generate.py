"""Write ``arguments.json``: ``python -m zoo.config.generate`` after a change of a signature."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from zoo.base.disk.files import write_text
from zoo.base.kinds import TARGET, Kind
from zoo.config import recorded
from zoo.config.inspection import Arguments, inspect_arguments
from zoo.config.recorded import release
from zoo.config.signatures import arguments_json
from zoo.config.sources import CONF
from zoo.config.targets import FUNCTION_BY_NAME, OPTIMIZERS, locate, named_targets

RECORDED = ("zoo.", "lightning.", OPTIMIZERS)  # begin the paths of the recorded targets


def signatures() -> dict[str, Any]:
    """Return the content of the file: the targets of ``conf/``, and the parts of those."""
    found: dict[str, Arguments] = {}
    texts = (file.read_text(encoding="utf-8") for file in CONF.rglob("*.yaml"))
    left = [target for text in texts for target in named_targets(text)]
    while left:
        target = left.pop()
        if target not in found and target.startswith(RECORDED):
            found[target] = inspect_arguments(locate(target))
            left += parts_of(found[target])
    written = {target: arguments_json(found[target]) for target in sorted(found)}
    for target, content in written.items():
        if not target.startswith("zoo."):  # their sentences stay in their packages
            for argument in content["arguments"].values():
                argument.pop("meaning", None)
    functions = (node for node in _nodes(written) if node[TARGET] == FUNCTION_BY_NAME)
    return {
        "versions": {package: release(package) for package in ("lightning", "torch")},
        "functions": sorted({node["name"] for node in functions}),
        "targets": written,
    }


def text_of(content: dict[str, Any]) -> str:
    """Return the text of the file: one line per argument, in which a change is visible."""
    head = [f' "{name}": {json.dumps(content[name])},' for name in ("versions", "functions")]
    lines = [*head, ' "targets": {']
    for target, entry in content["targets"].items():
        lines.append(f"  {json.dumps(target)}: {{")
        if entry.get("takes_any"):
            lines.append('   "takes_any": true,')
        lines.append('   "arguments": {')
        rows = [f"    {json.dumps(n)}: {json.dumps(a)}" for n, a in entry["arguments"].items()]
        lines += [f"{row}," for row in rows[:-1]] + rows[-1:]
        lines.append("   }\n  },")
    lines[-1] = lines[-1].removesuffix(",")
    return "\n".join(["{", *lines, " }", "}", ""])


def parts_of(arguments: Arguments) -> Iterator[str]:
    """Yield the dataclasses that arguments accept, and those of their defaults."""
    for one in arguments.named.values():
        if one.kind is not None:
            yield from _parts(one.kind)
        yield from (node[TARGET] for node in _nodes(one.default))


def _parts(kind: Kind) -> Iterator[str]:
    """Yield the dataclasses that a kind accepts."""
    if kind.form == "part":
        yield kind.name
    for inner in kind.inner:
        yield from _parts(inner)


def _nodes(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the nodes with a target in plain values."""
    if isinstance(value, Mapping) and TARGET in value:
        yield value
    items = value.values() if isinstance(value, Mapping) else value
    for item in items if isinstance(value, Mapping | list) else ():
        yield from _nodes(item)


def main() -> None:
    """Write the file."""
    write_text(recorded.FILE, text_of(signatures()))


if __name__ == "__main__":
    main()
