"""Terms in the prompts of training examples."""

from pathlib import Path

import numpy as np
import pytest

from zoo.base.errors import ZooError
from zoo.base.types import Context, Term
from zoo.data.terms import TermSampler, TermSampling

GLOSSARY = "load balancing\tLastverteilung\nAnna\nload\tLast\nBert\nCaesar\nDora\n"


def sampler(folder: Path, **options: float) -> TermSampler:
    path = folder / "terms.txt"
    path.write_text(GLOSSARY)
    return TermSampler(TermSampling(glossary=str(path), **options))  # type: ignore[arg-type]


def test_spoken_terms_are_all_in_and_others_fill_up(tmp_path: Path) -> None:
    one = sampler(tmp_path, share=1.0, most=4)
    random = np.random.default_rng(0)
    spoken = {Term("load balancing", "Lastverteilung"), Term("load", "Last"), Term("Anna", "Anna")}
    drawn = [one.draw("Load balancing, says Anna.", "", random)[2].terms for _ in range(50)]
    assert all(spoken <= {*terms} and len({*terms}) == len(terms) <= 4 for terms in drawn)
    assert {len(terms) for terms in drawn} == {3, 4}
    assert len({terms[0] for terms in drawn}) > 2  # in any order


def test_a_word_within_a_word_is_no_term(tmp_path: Path) -> None:
    one = sampler(tmp_path, share=1.0, most=1)
    drawn = {
        term
        for seed in range(50)
        for term in one.draw("Annabel reloads", "", np.random.default_rng(seed))[2].terms
    }
    assert len(drawn) == 6  # any term, for none of them is spoken


def test_a_share_of_the_examples_has_terms(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    drawn = [sampler(tmp_path, share=0.5).draw("Anna", "", random)[2] for _ in range(200)]
    assert 60 < sum(map(bool, drawn)) < 140
    assert sampler(tmp_path, share=0.0).draw("Anna", "", random)[2] == Context()


@pytest.mark.parametrize("options", [{"share": 1.5}, {"share": -0.1}, {"most": 0}])
def test_numbers_are_checked(options: dict[str, float]) -> None:
    with pytest.raises(ZooError, match=next(iter(options))):
        TermSampling(glossary="terms.txt", **options)  # type: ignore[arg-type]


def test_a_missing_glossary_is_refused() -> None:
    with pytest.raises(ZooError, match="no file"):
        TermSampler(TermSampling(glossary="/nowhere/terms.txt"))


def test_a_new_spelling_is_everywhere(tmp_path: Path) -> None:
    one = sampler(tmp_path, share=1.0, most=3, respelled=1.0)
    spellings = set()
    for seed in range(30):
        random = np.random.default_rng(seed)
        transcript, translation, context = one.draw("Anna, Annabel?", "Anna, Annabel?", random)
        new = transcript.partition(",")[0]
        spellings.add(new)
        assert new != "Anna"
        assert transcript == translation == f"{new}, Annabel?"
        assert Term(new, new) in context.terms
    assert len(spellings) > 5


def test_a_translation_keeps_its_spelling(tmp_path: Path) -> None:
    one = sampler(tmp_path, share=1.0, most=1, respelled=1.0)
    transcript, translation, context = one.draw("load it", "Last", np.random.default_rng(0))
    assert translation == "Last"
    assert context.terms == (Term(transcript.removesuffix(" it"), "Last"),)
    assert not transcript.startswith("load ")
