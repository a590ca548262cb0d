"""Quality metrics of text: BLEU, chrF, WER and CER.

BLEU and chrF sum sacreBLEU's sufficient statistics, so that the score of several parts of a corpus
is correct.
"""

from collections.abc import Sequence
from math import nan

from rapidfuzz.distance import Levenshtein
from sacrebleu.metrics.base import Metric as SacreMetric
from sacrebleu.metrics.bleu import BLEU as SacreBLEU
from sacrebleu.metrics.chrf import CHRF as SacreCHRF
from sacrebleu.metrics.ter import TER as SacreTER

from zoo.base.errors import ZooError, check_numbers
from zoo.base.languages import Language
from zoo.metrics.latency import WeightedMean


class CorpusQuality:
    """A sacreBLEU corpus score in [0, 100] with one reference per hypothesis.

    The score is NaN before the first update.

    Args:
        scorer: Metric of sacreBLEU.

    Attributes:
        sums: sacreBLEU's sufficient statistics.
        higher_is_better: Whether a higher score is better.
        unit: Unit of the score; empty: none.
        digits: Number of decimals that tables show.
    """

    higher_is_better: bool | None = True
    unit: str = ""
    digits: int = 2

    def __init__(self, scorer: SacreMetric) -> None:
        self.scorer = scorer
        self.scorer.num_refs = 1
        # sacreBLEU names the number of statistics nowhere
        self.sums = [0.0] * len(self._count([""], [""]))

    def statistics(self, hypotheses: Sequence[str], references: Sequence[str]) -> list[list[int]]:
        """Return sacreBLEU's sufficient statistics of each segment."""
        found: list[list[int]] = self.scorer._extract_corpus_statistics(
            list(hypotheses), [list(references)]
        )
        return found

    def score_of(self, sums: Sequence[float]) -> float:
        """Return the score of statistics that are summed over segments; NaN for no segments."""
        if not any(sums):
            return nan
        counts = [int(count) for count in sums]
        return float(self.scorer._compute_score_from_stats(counts).score)

    def _count(self, hypotheses: Sequence[str], references: Sequence[str]) -> list[int]:
        """Return sacreBLEU's sufficient statistics, summed over segments."""
        return [
            sum(column) for column in zip(*self.statistics(hypotheses, references), strict=True)
        ]

    def update(self, hypotheses: Sequence[str], references: Sequence[str]) -> None:
        """Add segments. Raises ZooError if hypotheses and references differ in number."""
        if len(hypotheses) != len(references):
            raise ZooError(
                f"There are {len(hypotheses)} hypotheses but {len(references)} references."
            )
        if hypotheses:
            counts = self._count(hypotheses, references)
            self.sums = [total + count for total, count in zip(self.sums, counts, strict=True)]

    def compute(self) -> float:
        """Return the score."""
        return self.score_of(self.sums)

    def sentence(self, hypothesis: str, reference: str) -> float:
        """Return the score of one segment alone."""
        return float(self.scorer.sentence_score(hypothesis, [reference]).score)

    def signature(self) -> str:
        """Return sacreBLEU's signature, such as ``nrefs:1|case:mixed|eff:no|tok:13a|...``."""
        return str(self.scorer.get_signature())


MOST_WORDS = 20  # of a sequence that chrF compares; chrF++ has 2


class BLEU(CorpusQuality):
    """BLEU of sacreBLEU with the tokenizer of the language.

    Args:
        language: target language.
        lowercase: whether upper and lower case are equal (``sacrebleu -lc``).

    Raises:
        ZooError: The tokenizer of the language is not installed.
    """

    def __init__(self, language: Language, *, lowercase: bool = False) -> None:
        try:
            scorer = SacreBLEU(tokenize=language.bleu_tokenizer, lowercase=lowercase)
        except RuntimeError as error:  # sacreBLEU raises it if MeCab is missing
            raise ZooError(
                f"BLEU for {language.name} needs sacreBLEU's tokenizer: pip install "
                "'sacrebleu[ja,ko]'."
            ) from error
        super().__init__(scorer)


class ChrF(CorpusQuality):
    """chrF2 of sacreBLEU; with ``word_order=2`` it is chrF++.

    Args:
        word_order: length of the longest sequences of words that are compared beside characters.

    Raises:
        ZooError: ``word_order`` is out of range.
    """

    def __init__(self, *, word_order: int = 0) -> None:
        check_numbers("chrF", least=0, most=MOST_WORDS, word_order=word_order)
        super().__init__(SacreCHRF(word_order=word_order))


class TER(CorpusQuality):
    """Translation edit rate of sacreBLEU in percent; lower is better."""

    higher_is_better: bool | None = False

    def __init__(self) -> None:
        super().__init__(SacreTER())


class ErrorRate(WeightedMean):
    """Edits (substitutions, insertions, deletions) per reference unit, in percent over all pairs.

    The rate is NaN before the first update.
    """

    higher_is_better: bool | None = False

    def update(self, hypothesis: Sequence[str], reference: Sequence[str]) -> None:
        """Add a pair of texts, each split into words or characters."""
        self.add(Levenshtein.distance(hypothesis, reference), len(reference))

    def compute(self) -> float:
        """Return the rate."""
        return 100.0 * super().compute()


def error_rate(
    hypotheses: Sequence[str], references: Sequence[str], *, language: Language
) -> float:
    """Compute WER in percent, or CER without white space for languages counted in characters.

    Texts are not normalised.

    Args:
        hypotheses: One hypothesis per reference.
        references: Texts, of which at least one is not empty.
        language: Language of the texts.

    Raises:
        ZooError: All references are empty, or hypotheses and references differ in number.
    """
    if len(hypotheses) != len(references):
        raise ZooError(f"There are {len(hypotheses)} hypotheses but {len(references)} references.")
    if not any(language.units(reference) for reference in references):
        raise ZooError("An error rate needs at least one reference that is not empty.")
    metric = ErrorRate()
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        metric.update(language.units(hypothesis), language.units(reference))
    return metric.compute()
