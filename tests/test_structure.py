"""Size and inheritance, read from the source: short files, short functions, shallow classes.

Code lines are those that hold code: no blank lines, no comments, no docstrings.
"""

import ast
import io
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILE_LINES, FUNCTION_LINES, DEPTH = 350, 50, 3

LAYOUT = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def sources() -> dict[str, str]:
    """Text of each file by its path below the root."""
    files = [ROOT / "train.py", ROOT / "evaluate.py"]
    for folder in ("zoo", "recipes", "benchmarks"):
        files += sorted((ROOT / folder).rglob("*.py"))
    return {file.relative_to(ROOT).as_posix(): file.read_text() for file in files}


@cache
def tree(path: str) -> ast.Module:
    return ast.parse(sources()[path])


@cache
def code_lines(path: str) -> frozenset[int]:
    """Numbers of the lines of a file that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(sources()[path]).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))

    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Module | ast.ClassDef | Function) and ast.get_docstring(node):
            docstring = node.body[0]
            lines.difference_update(range(docstring.lineno, (docstring.end_lineno or 0) + 1))
    return frozenset(lines)


def functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    """Functions and methods below a node, also nested ones, by qualified name."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | Function):
            name = f"{prefix}{child.name}"
            if not isinstance(child, ast.ClassDef):
                yield name, child
            yield from functions(child, f"{name}.")
        else:
            yield from functions(child, prefix)


def bases(path: str) -> dict[str, list[str]]:
    """Names of the base classes of each class of a file, without their parameters."""
    return {
        node.name: [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef)
    }


def imported(path: str) -> dict[str, tuple[str, str]]:
    """Module and name of what each name imported from our packages stands for."""
    return {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("zoo")
        for alias in node.names
    }


def depth(path: str, name: str) -> int:
    """How many classes of ours stand above each other, this one included.

    A class is looked up in its file, then in the module that it is imported from. Protocols and
    classes of other packages do not count.
    """
    ours = bases(path).get(name)
    if ours is None:
        module, original = imported(path).get(name, ("", ""))
        file = module.replace(".", "/") + ".py"
        package = file.removesuffix(".py") + "/__init__.py"
        found = next((one for one in (file, package) if one in sources()), None)
        return depth(found, original) if found else 0
    if "Protocol" in ours:
        return 0
    return 1 + max((depth(path, base) for base in ours if base != name), default=0)


def test_files_are_short() -> None:
    assert [path for path in sources() if len(code_lines(path)) > FILE_LINES] == []


def test_functions_are_short() -> None:
    long = []
    for path in sources():
        lines = code_lines(path)
        for name, node in functions(tree(path), ""):
            if len(lines & set(range(node.lineno, (node.end_lineno or 0) + 1))) > FUNCTION_LINES:
                long.append(f"{path}:{name}")
    assert long == []


def test_inheritance_is_shallow() -> None:
    classes = [(path, name) for path in sources() for name in bases(path)]
    assert [f"{path}:{name}" for path, name in classes if depth(path, name) > DEPTH] == []


def test_docstrings_comments_and_blank_lines_are_no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        'def f():\n    """First.\n\n    Last.\n    """\n    # why\n\n'
        '    x = """a\n    b"""\n    return x\n'
    )
    monkeypatch.setitem(sources(), "example.py", text)
    assert code_lines("example.py") == {1, 8, 9, 10}


def test_depth_counts_classes_of_ours_in_other_files(monkeypatch: pytest.MonkeyPatch) -> None:
    first = "class A(nn.Module): ...\nclass B(A): ...\nclass P(Protocol): ...\n"
    second = "from zoo.first import B as Base, P\nclass C(Base, P, torch.nn.Module): ...\n"
    monkeypatch.setitem(sources(), "zoo/first.py", first)
    monkeypatch.setitem(sources(), "zoo/second.py", second)
    assert [depth("zoo/first.py", name) for name in "ABP"] == [1, 2, 0]
    assert depth("zoo/second.py", "C") == 3
