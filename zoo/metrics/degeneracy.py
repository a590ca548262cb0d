"""Diagnostics of degenerate policies on single sentences: OmniSTEval 0.1, short form.

A system that emits a few words early and the rest after the end of the source has a low latency,
because YAAL ignores what comes after the end. Its share of words before the end is then smaller
than the latency suggests.
"""

from zoo.metrics.latency import YAAL, SegmentLatency, Timing

PERCENT = 100.0
DEGENERATE = 20.0  # percentage points of DSPTV, in either direction, from which a policy is suspect


class SimultaneousShare(SegmentLatency):
    """Share of the units that are emitted before the end of the source (SWF), in percent."""

    higher_is_better = None
    unit = ""

    def update(self, timing: Timing) -> None:
        """Add one segment."""
        before = sum(time < timing.source_length for time in timing.times)
        self.add(PERCENT * before, len(timing.times))


class ExpectedShare(SegmentLatency):
    """Share of the source that remains after the mean lag (EFSW), in percent.

    An even writer with the latency of the system emits so many of its units before the end.
    """

    higher_is_better = None
    unit = ""

    def update(self, timing: Timing) -> None:
        """Add one segment; those without YAAL are left out."""
        lag = YAAL().score(timing)
        if lag is not None:
            remaining = max(0.0, timing.source_length - lag)
            self.add(PERCENT * remaining, timing.source_length)


class DegeneracyTest(SegmentLatency):
    """Expected less actual share of units before the end of the source (DSPTV), in points.

    Values beyond ``DEGENERATE`` in either direction suggest a degenerate policy.
    """

    higher_is_better = None
    unit = ""

    def __init__(self) -> None:
        self.sums = [0.0] * 4  # those of the expected and of the actual share

    def update(self, timing: Timing) -> None:
        """Add one segment."""
        expected, actual = self._shares()
        expected.update(timing)
        actual.update(timing)
        self.sums = [*expected.sums, *actual.sums]

    def compute(self) -> float:
        """Return the difference; NaN without units."""
        expected, actual = self._shares()
        return expected.compute() - actual.compute()

    def _shares(self) -> tuple[ExpectedShare, SimultaneousShare]:
        """Return both shares of the segments so far."""
        expected, actual = ExpectedShare(), SimultaneousShare()
        expected.sums, actual.sums = self.sums[:2], self.sums[2:]
        return expected, actual


DEGENERACY_METRICS: dict[str, type[SegmentLatency]] = {
    "SWF": SimultaneousShare,
    "EFSW": ExpectedShare,
    "DSPTV": DegeneracyTest,
}
