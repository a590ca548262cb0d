"""Examples for the fuzzer: correct documents in which something is replaced, and damaged bytes."""

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

from hypothesis import strategies as st

NUMBERS = st.one_of(
    st.integers(-3, 5),
    st.sampled_from([10**9, 2**63, 10**400, -(10**400), 0.5, 1e308, -1e308, 5e-324]),
    st.floats(),
)
TEXTS = st.one_of(
    st.sampled_from(["", "x", "nan", "1", "true", "null", "\ud800", "\0", "..", "/", "a b", "de"]),
    st.text(max_size=8),
)
LEAVES = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=4,
)
Path = tuple[Any, ...]


def paths(document: Any, path: Path = ()) -> Iterator[Path]:
    """Every place in a document of lists and mappings."""
    yield path
    items: Any = ()
    if isinstance(document, Mapping):
        items = document.items()
    elif isinstance(document, list):
        items = enumerate(document)
    for key, value in items:
        yield from paths(value, (*path, key))


def replaced(document: Any, path: Path, value: Any, *, remove: bool) -> Any:
    """A copy of a document with another value at a place, or without the place."""
    if not path:
        return value
    found = copy.deepcopy(document)
    node = found
    for key in path[:-1]:
        node = node[key]
    if remove:
        del node[path[-1]]
    else:
        node[path[-1]] = value
    return found


@st.composite
def changed(draw: st.DrawFn, document: Any) -> Any:
    """The document with another value at one or two places."""
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from(list(paths(document))))
        document = replaced(document, path, draw(VALUES), remove=draw(st.integers(0, 4)) == 0)
    return document


@st.composite
def damaged(draw: st.DrawFn, content: bytes, *, head: int | None = None) -> bytes:
    """Bytes that are cut, or differ in a few places.

    Args:
        draw: draws values.
        content: bytes of a correct file.
        head: number of bytes from the start that may differ; None: all.
    """
    data = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, min(len(data), head or len(data)) - 1))
        data[place] = draw(st.one_of(st.sampled_from([0, 255, 127, 128]), st.integers(0, 255)))
    cut = draw(st.one_of(st.none(), st.integers(0, len(data))))
    return bytes(data[:cut])


@st.composite
def lines(draw: st.DrawFn, document: Any, *, number: int = 2) -> bytes:
    """JSON lines of which one is changed, and sometimes the bytes are damaged."""
    items = [document] * number
    items[draw(st.integers(0, number - 1))] = draw(changed(document))
    text = "".join(json.dumps(item) + "\n" for item in items).encode()
    return draw(damaged(text)) if draw(st.integers(0, 3)) == 0 else text
