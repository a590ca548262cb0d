"""Terms of a glossary in hypotheses and references, by hand."""

from math import isnan
from pathlib import Path

import pytest

from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.config import build, compose
from zoo.metrics.quality import BLEU
from zoo.metrics.terms import Glossary, MaskedBLEU, TermAccuracy

DE, ZH = language("de"), language("zh")


@pytest.fixture
def glossary(tmp_path: Path) -> str:
    path = tmp_path / "glossary.tsv"
    path.write_text(
        "\ufeffspeech\tSprache\nsign language\tGebärdensprache\n\nC++\nspoken language\tsprache\n"
        "New  York\n",
        encoding="utf-8",
    )
    return str(path)


def test_terms_match_as_whole_words_without_regard_to_case(glossary: str) -> None:
    terms = Glossary(glossary, DE)
    assert terms.terms == ["sprache", "gebärdensprache", "c++", "new york"]
    assert terms.terms_in("Die SPRACHE, C++; und New York.") == {0, 2, 3}
    assert terms.terms_in("Gebärdensprache und Sprachen") == {1}
    assert terms.without_terms("Die Sprache C++ in New York.") == "Die in ."


def test_terms_of_characters_match_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "zh.txt"
    path.write_text("翻译\n同声翻译\n", encoding="utf-8")
    terms = Glossary(str(path), ZH)
    assert terms.terms_in("他做同声翻译工作") == {0, 1}
    assert terms.without_terms("他做同声翻译工作") == "他做 工作"  # the longest term first


def test_the_share_of_the_terms_of_references(glossary: str) -> None:
    metric = TermAccuracy(glossary, DE)
    assert isnan(metric.compute())
    metric.update(
        ["Sprache und C", "kein Wort", "Sprache"],
        ["Die Sprache C++", "Sprache, Sprache", "ohne"],
    )
    assert metric.compute() == pytest.approx(100 / 3)  # of Sprache, C++ and Sprache
    assert isnan(metric.sentence("Sprache", "ohne"))
    assert metric.sentence("sprache", "Sprache") == 100
    assert metric.signature() == "terms:4|case:lower"


def test_bleu_without_terms(glossary: str) -> None:
    hypothesis = "wir lernen die Speech heute in der Schule"
    reference = "wir lernen die Sprache heute in der Schule"
    masked, plain = MaskedBLEU(glossary, DE), BLEU(DE)
    for metric in (masked, plain):
        metric.update([hypothesis.replace("Speech", "Sprache")], [reference])
        assert metric.compute() == pytest.approx(100)
    other = MaskedBLEU(glossary, DE)
    other.update([hypothesis.replace(" Speech", "")], [reference])
    assert other.compute() == pytest.approx(100)  # a term that is left out costs nothing
    assert masked.signature().endswith("|masked:4")


def test_a_glossary_is_chosen_by_name_and_must_exist(glossary: str, tmp_path: Path) -> None:
    def metrics(path: str) -> dict[str, object]:
        key = f"evaluation.metrics.TermAccuracy.glossary={path}"
        given = ["metric=terms", key, "evaluation.recogniser=null"]
        return dict(build(compose("evaluate", given).evaluation).metrics)

    assert list(metrics(glossary)) == ["TermAccuracy", "MaskedBLEU"]
    with pytest.raises(ZooError, match="There is no file"):
        metrics(str(tmp_path / "none.tsv"))
    for device in (Path("/dev/zero"), Path("/dev/stdin")):
        with pytest.raises(ZooError, match=r"is a pipe, a socket or a device|cannot be read"):
            metrics(str(device))
    empty = tmp_path / "empty.tsv"
    empty.write_text("\n\t\n")
    with pytest.raises(ZooError, match="has no terms"):
        metrics(str(empty))
