"""Groups of rows that belong together: of one test set, of one system."""

from collections.abc import Sequence

from zoo.runs.rows.row import Row, TestSet


def test_set_label(key: TestSet) -> str:
    """Return a test set as text, such as ``minitalks tst, en-de``.

    The talks follow if joined runs have different ones: ``minitalks tst, en-de, 2 talks``.
    """
    data, split, source, target, talks = key
    name = f"{f'{data} {split}'.strip()}, {source}-{target}"
    return f"{name}, {talks}" if talks else name


def by_test_set(rows: Sequence[Row]) -> dict[TestSet, list[Row]]:
    """Group rows by test set, in the order in which the test sets first occur."""
    groups: dict[TestSet, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.test_set, []).append(row)
    return groups


def by_system(rows: Sequence[Row]) -> list[list[Row]]:
    """Group rows by system, ordered by knob value.

    Systems precede oracles, and oracles precede offline rows (kind ``ceiling``). Systems that
    receive the reference segments follow the others.
    """
    groups: dict[tuple[str, bool, str], list[Row]] = {}
    for row in rows:
        key = (row.kind, row.has_reference_segments, row.system)
        groups.setdefault(key, []).append(row)
    order = ("system", "oracle", "ceiling")
    ranked = sorted(groups.items(), key=lambda item: (order.index(item[0][0]), item[0][1]))
    return [
        sorted(group, key=lambda row: row.knob.value if row.knob else 0.0) for _, group in ranked
    ]
