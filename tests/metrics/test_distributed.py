"""Metrics as torchmetrics: the same scores, and sums that torchmetrics adds over ranks."""

import torch

from zoo.languages import language
from zoo.metrics.distributed import DistributedMetric
from zoo.metrics.latency import LAAL, Timing
from zoo.metrics.quality import BLEU

CASES = [Timing((1.0, 2.0), 4.0, 3), Timing((), 2.0, 2), Timing((0.5, 4.0), 4.0, 4)]


def test_parts_of_a_corpus_have_the_score_of_the_whole() -> None:
    whole, first, second = LAAL(), DistributedMetric(LAAL()), DistributedMetric(LAAL())
    for case in CASES:
        whole.update(case)
    first.update(CASES[0])
    for case in CASES[1:]:
        second.update(case)
    first.merge_state(second)
    assert first.compute() == whole.compute()
    assert first.compute().dtype == torch.float64
    first.reset()
    first.update(CASES[0])
    assert first.compute() == LAAL().score(CASES[0])


def test_bleu_in_torchmetrics() -> None:
    texts = ["Das ist das kleine Haus .", "Wir gehen morgen in die Stadt ."]
    bleu, wrapped = BLEU(language("de")), DistributedMetric(BLEU(language("de")))
    for text in texts:
        bleu.update([text], [texts[0]])
        wrapped.update([text], [texts[0]])
    assert wrapped.compute() == bleu.compute()
    assert wrapped.higher_is_better
