"""Which plain values an argument accepts: annotations as data, so that they can be recorded.

Hand-written: pydantic and typeguard need the same rules for parts that are not built yet
(``_target_``) and the same words for messages, so that neither makes the code shorter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import FunctionType, NoneType, UnionType
from typing import Any, Literal, Self, Union, get_args, get_origin

from zoo.base.errors import shorten_list

TARGET = "_target_"  # key of a mapping that describes a part
Form = Literal[
    "any", "null", "bool", "int", "float", "str", "choice", "union", "list", "tuple", "mapping",
    "class", "part", "text",
]  # fmt: skip
_PLAIN: dict[Any, Form] = {
    Any: "any",
    object: "any",
    NoneType: "null",
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
}
_WORDS: Mapping[Form, str] = {
    "any": "any value",
    "null": "null",
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "text": "text",
    "mapping": "a mapping",
}
_TYPES: Mapping[Form, type | tuple[type, ...]] = {
    "null": NoneType,
    "bool": bool,
    "int": int,
    "float": (int, float),
    "str": str,
    "text": str,
}


@dataclass(frozen=True, slots=True)
class Kind:
    """What an argument accepts.

    Attributes:
        form: which values: ``class`` is a class that no plain value stands for, ``part`` a
            dataclass, which a mapping describes, and ``text`` a class that a text stands for.
        inner: members of a union, items of a tuple; the only item of a list or mapping.
        choices: values of a ``choice``.
        name: dotted path of a ``part``; last component of the path of another class.
        fields: arguments of a ``part``.
    """

    form: Form
    inner: tuple[Self, ...] = ()
    choices: tuple[Any, ...] = ()
    name: str = ""
    fields: tuple[str, ...] = ()

    @property
    def members(self) -> tuple["Kind", ...]:
        """The members of a union; another kind is its only member."""
        return self.inner if self.form == "union" else (self,)


def path_of(thing: type | FunctionType) -> str:
    """Return the dotted path of a class or function."""
    return f"{thing.__module__}.{thing.__qualname__}"


def kind_of(hint: Any) -> Kind:
    """Return what an annotation accepts."""
    origin, inner = get_origin(hint), get_args(hint)
    if form := _PLAIN.get(hint):
        return Kind(form)
    if origin is Literal:
        return Kind("choice", choices=inner)
    if origin in (Union, UnionType):
        return Kind("union", inner=tuple(kind_of(choice) for choice in inner))
    base = origin if isinstance(origin, type) else hint
    if not isinstance(base, type):
        return Kind("any", name=getattr(hint, "__name__", str(hint)))
    if issubclass(base, Mapping):
        return Kind("mapping", inner=(kind_of(inner[1] if inner else Any),))
    if base is tuple and inner and Ellipsis not in inner:
        return Kind("tuple", inner=tuple(kind_of(item) for item in inner))
    if issubclass(base, Sequence) and base is not str:
        return Kind("list", inner=(kind_of(inner[0] if inner else Any),))
    if issubclass(base, Path | Enum):
        return Kind("text", name=base.__name__)
    if origin is not None:  # such as Callable[[], float], which a plain value may describe
        return Kind("any", name=base.__name__)
    if is_dataclass(base):
        names = tuple(field.name for field in fields(base) if field.init)
        return Kind("part", name=path_of(base), fields=names)
    return Kind("class", name=base.__name__)


def fits(value: Any, kind: Kind) -> bool:
    """Return whether a plain value fits; a mapping with ``_target_`` always does."""
    form, inner = kind.form, kind.inner
    if form == "any" or (isinstance(value, Mapping) and TARGET in value):
        return True
    if form == "choice":
        return value in kind.choices
    if form == "union":
        return any(fits(value, member) for member in inner)
    if form == "mapping":
        return isinstance(value, Mapping) and all(fits(item, inner[0]) for item in value.values())
    if form == "tuple":
        same_length = isinstance(value, list) and len(value) == len(inner)
        return same_length and all(map(fits, value, inner))
    if form == "list":
        return isinstance(value, list) and all(fits(item, inner[0]) for item in value)
    if form in ("class", "part"):
        return not isinstance(value, bool | int | float | str | list | Mapping | None)
    return isinstance(value, _TYPES[form]) and (form == "bool" or not isinstance(value, bool))


def described(kind: Kind) -> str:
    """Return a kind in words: ``int | None`` is "a whole number or null"."""
    if kind.form == "choice":
        return f"one of {', '.join(map(str, kind.choices))}"
    if kind.form == "union":
        return " or ".join(dict.fromkeys(described(member) for member in kind.inner))
    if kind.form == "tuple":
        return f"a list ({', '.join(described(item) for item in kind.inner)})"
    if kind.form == "list":
        return f"a list ({described(kind.inner[0])} each)"
    if kind.form == "part":
        return f"a mapping ({shorten_list(kind.fields)})"
    if kind.name and kind.form != "text":
        return f"{'an' if kind.name[0] in 'AEIOU' else 'a'} {kind.name}"
    return _WORDS[kind.form]


def as_json(kind: Kind) -> Any:
    """Return a kind as JSON: its form, or a list of the form and what it contains."""
    own = [kind.name, *kind.fields] if kind.name else []
    content = [*own, *kind.choices, *(as_json(item) for item in kind.inner)]
    return [kind.form, *content] if content else kind.form


def from_json(content: Any) -> Kind:
    """Return the kind that ``as_json`` has written."""
    if isinstance(content, str):
        return Kind(content)  # type: ignore[arg-type]
    form, *rest = content
    if form == "choice":
        return Kind(form, choices=tuple(rest))
    if form in ("any", "class", "text", "part"):
        return Kind(form, name=rest[0], fields=tuple(rest[1:]))
    return Kind(form, inner=tuple(from_json(item) for item in rest))
