"""Quality metrics of text: BLEU, chrF, WER and CER.

BLEU and chrF sum sacreBLEU's sufficient statistics, so that the corpus score is correct when
segments are distributed over ranks.
"""

from collections.abc import Sequence
from typing import Any

import torch
from rapidfuzz.distance import Levenshtein
from sacrebleu.metrics.base import Metric as SacreMetric
from sacrebleu.metrics.bleu import BLEU as SacreBLEU
from sacrebleu.metrics.chrf import CHRF as SacreCHRF
from sacrebleu.metrics.ter import TER as SacreTER
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.functional.text import char_error_rate, word_error_rate

from zoo.errors import ZooError
from zoo.languages import Language
from zoo.metrics.latency import WeightedMean


class CorpusQuality(Metric):
    """A sacreBLEU corpus score in [0, 100] with one reference per hypothesis.

    The score is NaN before the first update.
    """

    full_state_update = False
    higher_is_better = True
    statistics: Tensor

    def __init__(self, scorer: SacreMetric, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scorer = scorer
        self.scorer.num_refs = 1
        width = len(self._count([""], [""]))  # sacreBLEU names the number of statistics nowhere
        self.add_state("statistics", torch.zeros(width, dtype=torch.float64), dist_reduce_fx="sum")

    def _count(self, hypotheses: Sequence[str], references: Sequence[str]) -> list[int]:
        """Return sacreBLEU's sufficient statistics, summed over segments."""
        rows = self.scorer._extract_corpus_statistics(list(hypotheses), [list(references)])
        return [sum(column) for column in zip(*rows, strict=True)]

    def update(self, hypotheses: Sequence[str], references: Sequence[str]) -> None:
        """Add segments. Raises ZooError if hypotheses and references differ in number."""
        if len(hypotheses) != len(references):
            raise ZooError(
                f"There are {len(hypotheses)} hypotheses but {len(references)} references."
            )
        if hypotheses:
            self.statistics += torch.tensor(
                self._count(hypotheses, references), dtype=torch.float64
            )

    def compute(self) -> Tensor:
        """Return the score, a float64 scalar."""
        if not bool(self.statistics.any()):
            return torch.tensor(float("nan"), dtype=torch.float64)
        counts = [int(count) for count in self.statistics.tolist()]
        score = self.scorer._compute_score_from_stats(counts).score
        return torch.tensor(score, dtype=torch.float64)

    def signature(self) -> str:
        """Return sacreBLEU's signature, such as ``nrefs:1|case:mixed|eff:no|tok:13a|...``."""
        return str(self.scorer.get_signature())


class BLEU(CorpusQuality):
    """BLEU of sacreBLEU with the tokenizer of the language.

    Raises:
        ZooError: The tokenizer of the language is not installed.
    """

    def __init__(self, language: Language, **kwargs: Any) -> None:
        try:
            scorer = SacreBLEU(tokenize=language.bleu_tokenizer)
        except RuntimeError as error:  # sacreBLEU raises it if MeCab is missing
            raise ZooError(
                f"BLEU for {language.name} needs sacreBLEU's extras: pip install 'sacrebleu[ja]'."
            ) from error
        super().__init__(scorer, **kwargs)


class ChrF(CorpusQuality):
    """chrF2 of sacreBLEU; with ``word_order=2`` it is chrF++."""

    def __init__(self, *, word_order: int = 0, **kwargs: Any) -> None:
        super().__init__(SacreCHRF(word_order=word_order), **kwargs)


class TER(CorpusQuality):
    """Translation edit rate of sacreBLEU in percent; lower is better."""

    higher_is_better = False

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(SacreTER(), **kwargs)


class ErrorRate(WeightedMean):
    """Edits (substitutions, insertions, deletions) per reference unit, in percent over all pairs.

    The rate is NaN before the first update.
    """

    higher_is_better = False

    def update(self, hypothesis: Sequence[str], reference: Sequence[str]) -> None:
        """Add a pair of texts, each split into words or characters."""
        self.add(Levenshtein.distance(hypothesis, reference), len(reference))

    def compute(self) -> Tensor:
        """Return the rate, a float64 scalar."""
        return 100.0 * self.total / self.count


def error_rate(
    hypotheses: Sequence[str], references: Sequence[str], *, language: Language
) -> float:
    """Compute WER in percent, or CER without white space for languages counted in characters.

    Texts are not normalised; the rates are those of torchmetrics.

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
    if language.unit == "word":
        return 100.0 * float(word_error_rate(list(hypotheses), list(references)))

    bare = [["".join(language.units(text)) for text in texts] for texts in (hypotheses, references)]
    return 100.0 * float(char_error_rate(bare[0], bare[1]))
