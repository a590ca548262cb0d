"""Arguments of classes and functions, read from their source without an import.

Importing a backbone takes seconds. A mistyped key is reported without: its class has no such
argument in its source. A target that is not described by source alone has no outline; it is
imported (``zoo.config.signatures``).
"""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

Definition = ast.ClassDef | ast.FunctionDef
FREE = ("Mapping", "dict", "Any")  # annotations of mappings with any keys


def outline(target: str) -> Mapping[str, str | None] | None:
    """Return the arguments of a target, in order.

    Args:
        target: dotted path of a class or function.

    Returns:
        By the name of each argument the dotted path of the dataclass that a mapping describes there
        (None: of no dataclass, or of several). None instead of a mapping if the source of the
        target or of one of its bases is not found.
    """
    module, _, name = target.rpartition(".")
    found = _find(module, name)
    return None if found is None else _arguments(*found)


@cache
def _arguments(module: str, node: Definition) -> Mapping[str, str | None] | None:
    """Return the arguments of a definition in a module, as ``outline`` does."""
    if isinstance(node, ast.FunctionDef):
        return _parameters(module, node.args)
    own = next((one for one in node.body if _is_function(one, "__init__")), None)
    if own is not None:
        assert isinstance(own, ast.FunctionDef)
        return _parameters(module, own.args, method=True)

    inherited: dict[str, str | None] = {}
    is_dataclass = _is_dataclass(node)
    for base in node.bases:
        if not isinstance(base, ast.Name | ast.Subscript):
            return None
        name = base.value if isinstance(base, ast.Subscript) else base
        if isinstance(name, ast.Name) and name.id in ("Protocol", "ABC", "Generic", "object"):
            continue
        found = _find(module, name.id) if isinstance(name, ast.Name) else None
        arguments = None if found is None else _arguments(*found)
        if arguments is None:
            return None
        inherited = {**arguments, **inherited}
        if arguments and not is_dataclass:
            break
    if not is_dataclass:
        return inherited
    fields = [one for one in node.body if isinstance(one, ast.AnnAssign)]
    own_fields = {ast.unparse(one.target): one for one in fields}
    parts = inherited | {
        name: _part(module, one.annotation, one.value) for name, one in own_fields.items()
    }
    return {name: part for name, part in parts.items() if _is_argument(own_fields.get(name))}


def _is_argument(field: ast.AnnAssign | None) -> bool:
    """Return whether a field of a dataclass is an argument; an inherited one (None) is."""
    if field is None:
        return True
    value = "" if field.value is None else ast.unparse(field.value)
    return "ClassVar" not in ast.unparse(field.annotation) and "init=False" not in value


def _parameters(
    module: str, given: ast.arguments, *, method: bool = False
) -> Mapping[str, str | None] | None:
    """Return the parameters of a function by name; None if it takes any keyword.

    Args:
        module: module of the function.
        given: its parameters.
        method: whether the first parameter is the object.
    """
    if given.kwarg is not None:
        return None
    first: list[ast.expr | None] = [None] * (len(given.args) - len(given.defaults))
    positional = zip(given.args, [*first, *given.defaults], strict=True)
    named = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    found = [*positional, *named][1 if method else 0 :]
    return {one.arg: _part(module, one.annotation, default) for one, default in found}


def _part(module: str, annotation: ast.expr | None, default: ast.expr | None) -> str | None:
    """Return the dotted path of the dataclass that a mapping describes; see ``part_of``.

    Args:
        module: module of the argument.
        annotation: annotation of the argument, if any.
        default: default of the argument, if any.
    """
    if isinstance(default, ast.Call) and (own := _dataclass(module, default.func)):
        return own
    members = list(_members(annotation))
    heads = [one.value if isinstance(one, ast.Subscript) else one for one in members]
    if any(isinstance(head, ast.Name) and head.id in FREE for head in heads):
        return None
    found = [path for one in members if (path := _dataclass(module, one))]
    return found[0] if len(found) == 1 else None


def _members(annotation: ast.expr | None) -> Iterator[ast.expr]:
    """Yield the members of a union; another annotation is its only member."""
    if isinstance(annotation, ast.BinOp):
        yield from _members(annotation.left)
        yield from _members(annotation.right)
    elif annotation is not None:
        yield annotation


def _dataclass(module: str, expression: ast.expr) -> str | None:
    """Return the dotted path of a dataclass whose name is the whole expression, else None."""
    found = _find(module, expression.id) if isinstance(expression, ast.Name) else None
    if found is None or not isinstance(found[1], ast.ClassDef) or not _is_dataclass(found[1]):
        return None
    return f"{found[0]}.{found[1].name}"


def _is_dataclass(node: ast.ClassDef) -> bool:
    """Return whether a class has the decorator ``dataclass``."""
    return any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)


def _is_function(node: ast.stmt, name: str) -> bool:
    """Return whether a statement defines the function ``name``."""
    return isinstance(node, ast.FunctionDef) and node.name == name


@cache
def _find(module: str, name: str) -> tuple[str, Definition] | None:
    """Return the module and the definition of a name that a module defines or imports."""
    for statement in _statements(module):
        if isinstance(statement, Definition) and statement.name == name:
            return module, statement
        if isinstance(statement, ast.ImportFrom) and statement.level == 0 and statement.module:
            for alias in statement.names:
                if (alias.asname or alias.name) == name:
                    return _find(statement.module, alias.name)
    return None


@cache
def _statements(module: str) -> list[ast.stmt]:
    """Return the statements at the top level of a module; none if its source is not found."""
    path = _source(module)
    if path is None:
        return []
    try:
        return ast.parse(path.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return []


def _source(module: str) -> Path | None:
    """Return the file of a module; None if it is not found."""
    package, *below = module.split(".")
    return next((path for path in _candidates(package, below) if path.is_file()), None)


def _candidates(package: str, below: list[str]) -> Iterator[Path]:
    """Yield the paths where the file of a module may be.

    Args:
        package: top-level package, or a module without a package.
        below: names of the module in it.
    """
    try:
        spec = find_spec(package)  # imports nothing, for the name has no dot
    except (ImportError, ValueError):
        return
    if spec is None:
        return
    if spec.submodule_search_locations is None:
        if spec.origin is not None and not below:
            yield Path(spec.origin)
        return
    for root in spec.submodule_search_locations:
        folder = Path(root, *below)
        yield folder / "__init__.py"
        if below:
            yield folder.with_suffix(".py")
