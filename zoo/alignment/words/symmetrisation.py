"""Symmetrisation of the two directions of a statistical word aligner (Koehn et al., 2005)."""

from collections.abc import Callable
from typing import Literal

from zoo.alignment.words.base import Point

Symmetrisation = Literal["intersection", "union", "grow-diag-final-and"]

NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def grow_diag_final_and(forward: set[Point], reverse: set[Point]) -> set[Point]:
    """Combine two directions: more links than their intersection, fewer than their union.

    Begin with the links of both directions. Repeatedly add links of one direction that are next to
    a link, also diagonally, if one of the two words has no link (grow-diag). Finally add links of
    the forward, then of the reverse direction, if neither word has a link (final-and).

    Args:
        forward: links of the forward direction.
        reverse: links of the reverse direction.

    Returns:
        All links.
    """
    links = forward & reverse
    candidates = forward | reverse
    sources = {source for source, _ in links}
    targets = {target for _, target in links}

    def add(point: Point) -> None:
        links.add(point)
        sources.add(point[0])
        targets.add(point[1])

    is_growing = True
    while is_growing:
        is_growing = False
        for source, target in sorted(links):
            for down, right in NEIGHBOURS:
                point = (source + down, target + right)
                is_free = point[0] not in sources or point[1] not in targets
                if point in candidates and point not in links and is_free:
                    add(point)
                    is_growing = True

    for point in [*sorted(forward), *sorted(reverse)]:
        if point[0] not in sources and point[1] not in targets:
            add(point)
    return links


SYMMETRISATIONS: dict[str, Callable[[set[Point], set[Point]], set[Point]]] = {
    "intersection": lambda forward, reverse: forward & reverse,
    "union": lambda forward, reverse: forward | reverse,
    "grow-diag-final-and": grow_diag_final_and,
}
