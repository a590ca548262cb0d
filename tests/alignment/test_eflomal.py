"""Symmetrisation, and eflomal on a corpus of a known dictionary."""

import random

import pytest

from zoo.alignment.words import eflomal as module
from zoo.alignment.words.eflomal import EflomalAligner
from zoo.alignment.words.symmetrisation import SYMMETRISATIONS, grow_diag_final_and
from zoo.base.errors import ZooError


def test_links_grow_from_the_intersection_to_free_words() -> None:
    forward = {(0, 0), (1, 1), (2, 1), (4, 4)}
    reverse = {(0, 0), (1, 1), (0, 1), (5, 5), (2, 2)}
    # (2, 1) is next to (1, 1), and source 2 is free. (2, 2) is next to (2, 1), and target 2 is
    # free. (0, 1) is next to (0, 0), but both words have links. (4, 4) and (5, 5) are next to
    # nothing; their words are free.
    expected = {(0, 0), (1, 1), (2, 1), (2, 2), (4, 4), (5, 5)}
    assert grow_diag_final_and(forward, reverse) == expected


def test_final_links_need_two_free_words() -> None:
    assert grow_diag_final_and({(0, 0), (3, 3)}, {(0, 0), (0, 3)}) == {(0, 0), (3, 3)}
    assert grow_diag_final_and({(0, 0)}, {(0, 0), (0, 3)}) == {(0, 0)}


def test_symmetrisations_lie_between_intersection_and_union() -> None:
    rng = random.Random(0)
    for _ in range(20):
        forward, reverse = (
            {(rng.randrange(6), rng.randrange(6)) for _ in range(8)} for _ in range(2)
        )
        least, most, grown = (
            SYMMETRISATIONS[name](forward, reverse)
            for name in ("intersection", "union", "grow-diag-final-and")
        )
        assert least <= grown <= most


def test_eflomal_finds_the_links_of_a_dictionary() -> None:
    pytest.importorskip("eflomal")
    rng = random.Random(0)
    pairs = []
    for _ in range(400):
        numbers = rng.sample(range(40), 6)
        pairs.append(([f"S{number}," for number in numbers], [f"t{number}" for number in numbers]))
    pairs.insert(100, ([], ["t1", "t2"]))
    pairs.insert(200, (["s1"], []))

    found = EflomalAligner().align(pairs)
    assert found[100] == ((), ())
    assert found[200] == ()
    whole = [one for place, one in enumerate(found) if place not in (100, 200)]
    right = sum(one == tuple((place,) for place in range(6)) for one in whole)
    assert right > 0.9 * len(whole)


def test_words_keep_their_number_of_tokens() -> None:
    assert module._tokens((["„Don't,", "–", "No."], ["A\u2019"])) == (["don't", "–", "no"], ["a"])


def test_wrong_arguments_and_a_missing_package_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZooError, match="choose one of: intersection, union"):
        EflomalAligner(symmetrisation="grow")  # type: ignore[arg-type]
    with pytest.raises(ZooError, match="context_ratio above 1"):
        EflomalAligner(context_ratio=1.0)
    with pytest.raises(ZooError, match="model from 1 to 3"):
        EflomalAligner(model=4)
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(ZooError, match=r"simulzoo\[align\]"):
        EflomalAligner().check()
