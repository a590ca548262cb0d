"""Elapsed times as two tools of the field read them, on cases worked out by hand."""

from zoo.metrics.elapsed import fbk_elapsed, omnisteval_elapsed


def test_fbk_rule() -> None:
    # as is; same raw elapsed keeps the lag of 1; 6.5 - 3 + 2
    assert fbk_elapsed([2, 2, 4], [3, 3, 6.5], [0, 0, 0]) == [3, 3, 5.5]


def test_fbk_rule_takes_the_lag_after_clamping() -> None:
    # first: 3 - 3 = 0 with delay 2 - 3 -> 0, so no lag is left; then 0 + 5 - 3.
    # Unclamped it would be 1 + 5 - 3.
    assert fbk_elapsed([2, 5], [3, 3], [3, 3]) == [0, 2]


def test_omnisteval_rule_never_goes_back() -> None:
    assert omnisteval_elapsed([2, 2, 4], [3, 3, 6.5]) == [3, 3, 5.5]
    assert omnisteval_elapsed([2, 5], [9, 10]) == [9, 9]


def test_nothing_written() -> None:
    assert fbk_elapsed([], [], []) == []
    assert omnisteval_elapsed([], []) == []
