"""Latency metrics on cases worked out by hand."""

import math
import random

import pytest

from zoo.metrics.latency import (
    AL,
    AP,
    ATD,
    DAL,
    LAAL,
    RTF,
    YAAL,
    EndOffset,
    SegmentLatency,
    StartOffset,
    Timing,
)
from zoo.metrics.sums import merge


def timing(*times: float, source: float = 4.0, reference: int = 4, end: float = math.inf) -> Timing:
    return Timing(times, source, reference, end)


@pytest.mark.parametrize(
    ("metric", "case", "value"),
    [
        # one unit per second, written one second late
        (AL(), timing(1, 2, 3, 4), 1.0),
        (LAAL(), timing(1, 2, 3, 4), 1.0),
        # longer reference: half a second per unit; 1, 1.5, 2, 2.5
        (AL(), timing(1, 2, 3, 4, reference=8), 1.75),
        (LAAL(), timing(1, 2, 3, 4, reference=8), 1.75),
        # shorter reference: AL credits over-generation (1, 0, -1, -2), LAAL does not
        (AL(), timing(1, 2, 3, 4, reference=2), -0.5),
        (LAAL(), timing(1, 2, 3, 4, reference=2), 1.0),
        # stops with the first unit at the end of the source: 1, 3
        (AL(), timing(1, 4, 4, 4), 2.0),
        # before that end only: 1
        (YAAL(), timing(1, 4, 4, 4), 1.0),
        # long form: before the end of the recording: 1, 3, 2, 1
        (YAAL(long_form=True), timing(1, 4, 4, 4, end=10.0), 1.75),
        (YAAL(long_form=True), timing(1, 4, 4, 4, end=4.0), 1.0),
        # everything at the end
        (AL(), timing(4, 4), 4.0),
        (LAAL(), timing(4, 4), 4.0),
        # first unit after the end: its own time
        (AL(), timing(5, 6), 5.0),
        (LAAL(), timing(5, 6), 5.0),
        # one unit, length 1
        (AL(), timing(3, reference=1), 3.0),
        (LAAL(), timing(3, reference=1), 3.0),
        (DAL(), timing(3, reference=1), 3.0),
        (AP(), timing(3, reference=1), 0.75),
        (AP(), timing(1, 2, 3, 4), 10 / 16),
        # each unit takes at least a second: 1-0, 2-1, 3-2, 4-3
        (DAL(), timing(1, 1, 1, 1), 1.0),
        (DAL(), timing(4, 4, 4, 4), 4.0),
        # source tokens end at .3 .6 | .9 1.2; pairs (.6,.3) (.6,.6) (1.2,.9)
        (ATD(), timing(0.6, 0.6, 1.2), 0.2),
        # two written when one source token was received: the third is paired with the second
        # source token
        (ATD(), timing(0.3, 0.3, 0.6), 0.0),
        # the same, though four are received: pairs (.3,.3) (.3,.3) (1.2,.6)
        (ATD(), timing(0.3, 0.3, 1.2), 0.2),
        # fewer are written than were received: pairs (.6,.3) (1.2,.6)
        (ATD(), timing(0.6, 1.2), 0.45),
        # 2.7 s are nine tokens, not nine and a rest
        (ATD(), timing(2.7), 2.4),
        (StartOffset(), timing(1, 2), 1.0),
        (EndOffset(), timing(1, 6), 2.0),
        (EndOffset(), timing(1, 2), -2.0),
    ],
)
def test_hand_computed(metric: SegmentLatency, case: Timing, value: float) -> None:
    metric.update(case)
    assert float(metric.compute()) == pytest.approx(value, abs=1e-12)


def test_token_delay_with_compute() -> None:
    # one second of compute before the first unit; ends 1.6 1.6 1.6, source tokens .3 .6 .9
    metric = ATD()
    metric.update(Timing((1.6, 1.6, 2.2), 1.2, 3, ideal=(0.6, 0.6, 1.2)))
    assert float(metric.compute()) == pytest.approx((1.3 + 1.0 + 0.7) / 3)


@pytest.mark.parametrize("kind", [AL, LAAL, AP, DAL, YAAL, ATD, StartOffset, EndOffset])
def test_nothing_written_is_skipped_not_zero(kind: type[SegmentLatency]) -> None:
    metric = kind()
    metric.update(timing())
    assert math.isnan(float(metric.compute()))
    metric.update(timing(1, 2))
    alone = kind()
    alone.update(timing(1, 2))
    assert float(metric.compute()) == float(alone.compute())


@pytest.mark.parametrize("kind", [AL, LAAL, AP, DAL, YAAL])
def test_source_without_length_is_skipped(kind: type[SegmentLatency]) -> None:
    assert kind().score(timing(1, source=0.0)) is None


def test_reference_without_units() -> None:
    assert AL().score(timing(1, reference=0)) is None
    assert AP().score(timing(1, reference=0)) is None
    assert LAAL().score(timing(1, reference=0)) == 1.0


def test_yaal_without_scorable_unit_is_excluded() -> None:
    assert YAAL().score(timing(4, 5)) is None
    assert YAAL(long_form=True).score(timing(4, 5, end=4.0)) is None


def test_corpus_is_unweighted_mean() -> None:
    metric = StartOffset()
    for case in (timing(1), timing(2, 2, 2, 2, 2)):
        metric.update(case)
    assert float(metric.compute()) == 1.5


def test_properties_on_random_cases() -> None:
    draw = random.Random(3)
    for _ in range(200):
        times = sorted(draw.uniform(0, 12) for _ in range(draw.randint(1, 20)))
        case = Timing(tuple(times), draw.uniform(1, 10), draw.randint(1, 20), 11.0)
        later = Timing(
            tuple(time + 1 for time in times), case.source_length, case.reference_length, 11.0
        )
        al, laal, dal = (kind().score(case) for kind in (AL, LAAL, DAL))
        assert al is not None
        assert laal is not None
        assert dal is not None
        assert al <= laal + 1e-9, "LAAL never credits over-generation"
        assert dal <= (DAL().score(later) or 0) + 1e-9, "later is never earlier"
        if times[-1] < case.source_length:
            assert YAAL().score(case) == pytest.approx(laal), "the two differ only at the end"


def test_ranks_that_saw_different_segments_agree_on_the_mean() -> None:
    cases = [timing(1, 2, 3), timing(2, 2), timing(), timing(3, source=5.0), timing(0.5, 4)]
    together, first, second = LAAL(), LAAL(), LAAL()
    for case in cases:
        together.update(case)
    for case in cases[:3]:
        first.update(case)
    for case in cases[3:]:
        second.update(case)
    merge(first, second)
    assert first.compute() == together.compute()


def test_real_time_factor_is_a_ratio_of_sums() -> None:
    metric = RTF()
    metric.update([0.1, 0.2], 1.0)
    metric.update([2.7], 9.0)
    assert float(metric.compute()) == pytest.approx(0.3)
