"""BLEU, chrF and error rates."""

import math

import pytest
import sacrebleu

from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.metrics.quality import BLEU, ChrF, error_rate
from zoo.metrics.sums import merge

HYPOTHESES = ["Das ist ein kleines Haus .", "", "Wir gehen morgen in die Stadt und kaufen Brot ."]
REFERENCES = ["Das ist das kleine Haus .", "Ja .", "Wir gehen morgen in die Stadt und holen Brot ."]


def test_the_same_as_sacrebleu_however_it_is_split() -> None:
    expected = sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    whole, first, second = (BLEU(language("de")) for _ in range(3))
    whole.update(HYPOTHESES, REFERENCES)
    first.update(HYPOTHESES[:1], REFERENCES[:1])
    second.update(HYPOTHESES[1:], REFERENCES[1:])
    merge(first, second)
    assert float(whole.compute()) == pytest.approx(expected)
    assert float(first.compute()) == pytest.approx(expected)
    chrf = ChrF()
    chrf.update(HYPOTHESES, REFERENCES)
    assert float(chrf.compute()) == pytest.approx(
        sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    )


def test_case_does_not_count_where_it_is_not_wanted() -> None:
    metric = BLEU(language("de"), lowercase=True)
    metric.update([text.upper() for text in HYPOTHESES], REFERENCES)
    expected = sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES], lowercase=True).score
    assert float(metric.compute()) == pytest.approx(expected)
    assert "case:lc" in metric.signature()


def test_tokenizer_follows_the_language() -> None:
    zh = BLEU(language("zh"))
    zh.update(["我们去城里买面包"], ["我们去城里买面包"])
    assert float(zh.compute()) == pytest.approx(100)
    assert "tok:zh" in zh.signature()


@pytest.mark.parametrize("code", ["ja", "ko"])
def test_japanese_and_korean_are_cut_by_mecab(code: str) -> None:
    assert f"tok:{code}-mecab" in BLEU(language(code)).signature()


def test_nothing_to_score() -> None:
    metric = BLEU(language("de"))
    assert math.isnan(float(metric.compute()))
    metric.update([], [])
    assert math.isnan(float(metric.compute()))
    metric.update([""], ["Ja ."])
    assert float(metric.compute()) == 0.0
    with pytest.raises(ZooError, match="1 hypotheses but 2"):
        metric.update(["a"], ["a", "b"])


def test_error_rates() -> None:
    assert error_rate(["a b x"], ["a b c"], language=language("de")) == pytest.approx(100 / 3)
    assert error_rate(["你 好"], ["你们好"], language=language("zh")) == pytest.approx(100 / 3)
    with pytest.raises(ZooError, match="not empty"):
        error_rate(["a"], [" "], language=language("de"))
