"""Signatures of classes and functions, read from the imported objects."""

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from inspect import Parameter
from types import FunctionType
from typing import Any, get_type_hints

from zoo.base.kinds import TARGET, Kind, kind_of, path_of
from zoo.config.targets import function_node

REQUIRED = "???"  # OmegaConf's mark of a value that a configuration must set
UNWRITTEN = object()  # a default that no configuration can contain
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
_SECTION = re.compile(r"^(Args|Attributes):\n((?:[ \t]+.*\n|\n)*)", re.MULTILINE)
_ELSEWHERE = "See :class:"  # beginning of an entry that refers to the docstring of a base
_ENTRY = re.compile(r"^    (\w+): (.*(?:\n {5,}.*)*)", re.MULTILINE)


@dataclasses.dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a target.

    Attributes:
        default: default as plain values; ``REQUIRED`` for an argument without a default,
            ``UNWRITTEN`` for one that no configuration can contain.
        kind: what the argument accepts; None if it has no annotation or it cannot be resolved.
        meaning: what the docstring of the target says of it.
    """

    default: Any
    kind: Kind | None = None
    meaning: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a target.

    Attributes:
        named: arguments by name, in order.
        takes_any: whether the target also takes arguments of other names.
    """

    named: Mapping[str, Argument]
    takes_any: bool = False


@cache
def inspect_arguments(target: Callable[..., Any]) -> Arguments:
    """Return the arguments of a class or function.

    A constructor that hands ``**kwargs`` to ``super().__init__`` has the arguments of that
    constructor, too, without those that it sets itself. A built-in without a signature takes any
    arguments.
    """
    if not isinstance(target, type):
        return _of_function(target, target)
    if "__init__" not in vars(target) and dataclasses.is_dataclass(target):
        return _of_function(target, target)
    own = next((base for base in target.__mro__ if "__init__" in vars(base)), object)
    if own in (object, type) or dataclasses.is_dataclass(own) or "__signature__" in vars(own):
        return _of_function(target, target)
    constructor = vars(own)["__init__"]
    found = _of_function(constructor, target, method=True)
    handed_on = _handed_to_super(constructor) if found.takes_any else None
    bases = target.__mro__[target.__mro__.index(own) + 1 :]
    base = next((base for base in bases if "__init__" in vars(base)), object)
    if handed_on is None or base is object:
        return found
    count, names = handed_on
    inherited = inspect_arguments(base)
    rest = list(inherited.named.items())[count:]
    added = {name: one for name, one in rest if name not in (names | found.named.keys())}
    return Arguments({**found.named, **added}, inherited.takes_any)


def as_plain(value: Any) -> Any:
    """Return a default as configuration values: dataclasses as nodes, functions by name.

    Raises:
        TypeError: the default has a type that no configuration can contain.
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, str):
        return str(value)  # a member of a StrEnum
    if isinstance(value, Mapping):
        return {name: as_plain(item) for name, item in value.items()}
    if isinstance(value, Sequence):
        return [as_plain(item) for item in value]
    if isinstance(value, FunctionType):
        return function_node(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if field.init]
        values = {name: as_plain(getattr(value, name)) for name in names}
        return {TARGET: path_of(type(value)), **values}
    raise TypeError(f"{value!r} cannot be written to a configuration.")


def _of_function(
    called: Callable[..., Any], target: Callable[..., Any], *, method: bool = False
) -> Arguments:
    """Return the parameters of a function or class.

    Args:
        called: what is called.
        target: whose docstring describes the parameters.
        method: whether the first parameter is the object.
    """
    try:
        parameters = list(inspect.signature(called).parameters.values())[1 if method else 0 :]
    except ValueError:
        return Arguments({}, takes_any=True)
    factories = {}
    if isinstance(called, type) and dataclasses.is_dataclass(called):
        factories = {field.name: field.default_factory for field in dataclasses.fields(called)}
    hints, meanings = _hints(called), _meanings(target)
    named = {
        one.name: Argument(
            _default(one, factories.get(one.name)),
            kind_of(hints[one.name]) if one.name in hints else None,
            meanings.get(one.name, ""),
        )
        for one in parameters
        if one.kind in _NAMED
    }
    return Arguments(named, any(one.kind is Parameter.VAR_KEYWORD for one in parameters))


def _default(parameter: Parameter, factory: object) -> Any:
    """Return the default of a parameter as plain values.

    Args:
        parameter: the parameter.
        factory: makes the default of a dataclass; a field without one has a marker.
    """
    value = factory() if callable(factory) else parameter.default
    if value is Parameter.empty:
        return REQUIRED
    try:
        return as_plain(value)
    except TypeError:
        return UNWRITTEN


def _hints(called: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the annotations of a target; empty if an annotation is not resolvable."""
    function = called.__init__ if isinstance(called, type) else called  # type: ignore[misc]
    try:
        return get_type_hints(function)
    except (NameError, TypeError):
        return {}


def _handed_to_super(constructor: FunctionType) -> tuple[int, set[str]] | None:
    """Return what a constructor with ``**kwargs`` sets itself in ``super().__init__(...)``.

    Returns:
        The number of arguments without a name and the names of the others; None if the constructor
        does not hand its ``**kwargs`` on, or if its source is not found.
    """
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(constructor)))
    except (OSError, TypeError, SyntaxError):
        return None
    for call in _super_calls(tree):
        if any(keyword.arg is None for keyword in call.keywords):
            names = {keyword.arg for keyword in call.keywords if keyword.arg is not None}
            return len(call.args), names
    return None


def _super_calls(tree: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls of ``super().__init__``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "super().__init__":
            yield node


def _meanings(target: Callable[..., Any]) -> Mapping[str, str]:
    """Return what docstrings say of the arguments of a target, those of its bases included."""
    if not isinstance(target, type):
        return _described(target, "Args", "Attributes")
    things = [thing for base in target.__mro__[:-1] for thing in (base, vars(base).get("__init__"))]
    found: dict[str, str] = {}
    # Arguments come first, because an attribute may differ from the argument of its name.
    for section in ("Args", "Attributes"):
        for thing in things:
            found = {**_described(thing, section), **found}
    return found


def _described(thing: object, *sections: str) -> dict[str, str]:
    """Return the entries of sections of a docstring, by name.

    Entries that refer to the docstring of another class are left out: the class is a base.
    """
    text = inspect.cleandoc(getattr(thing, "__doc__", None) or "") + "\n"
    contents = (found[2] for found in _SECTION.finditer(text) if found[1] in sections)
    entries = (entry for content in contents for entry in _ENTRY.finditer(content))
    found = {entry[1]: " ".join(entry[2].split()) for entry in entries}
    return {name: text for name, text in found.items() if not text.startswith(_ELSEWHERE)}
