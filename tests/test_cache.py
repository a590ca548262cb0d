"""``python -m zoo.cache`` lists what the cache holds and removes what is named, old or too much."""

import os
from pathlib import Path

import pytest

from zoo.cache import entries, main, parse_size, parse_span
from zoo.data.cache import locked
from zoo.data.minitalks.version import version_name
from zoo.errors import ZooError

DAY = 86400
CURRENT = f"minitalks-{version_name()}"
# entries by the days since their last use
AGES = {CURRENT: 1, "minitalks-0": 40, "utterances-aa": 2, "encoded-bb": 5, "huggingface": 3}
SIZE = 40 * 1024  # bytes of an entry, whole blocks of the disk


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SIMULZOO_CACHE", str(tmp_path))
    monkeypatch.setattr("zoo.cache.time.time", lambda: 100.0 * DAY)
    for name in AGES:
        (tmp_path / name / "tst").mkdir(parents=True)
        (tmp_path / name / "tst" / "data").write_bytes(b"x" * SIZE)
    (tmp_path / "comet").mkdir()
    (tmp_path / "comet" / "cc.jsonl").write_bytes(b"{}\n")
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("not of the zoo")
    for name, days in {**AGES, "comet/cc.jsonl": 4}.items():
        os.utime(tmp_path / name, 2 * ((100 - days) * DAY,))
    return tmp_path


def left(root: Path) -> set[str]:
    return {entry.name for entry in entries(root)}


def test_all_entries_of_the_zoo_are_listed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    lines = capsys.readouterr().out.splitlines()
    names = [line.split()[-1] for line in lines[1:-1]]
    oldest_first = sorted({**AGES, "comet/cc.jsonl": 4}.items(), key=lambda item: -item[1])
    assert names == [name for name, _ in oldest_first]
    assert "another" in lines[1]
    assert "40.0 days ago" in lines[1]
    assert "current" in lines[-2]
    assert lines[-1].startswith("6 entries, ")
    assert lines[-1].endswith(f" in {root}")
    assert left(root) == {*AGES, "comet/cc.jsonl"}


def test_sizes_are_those_of_all_files(root: Path) -> None:
    for entry in entries(root):
        if entry.name in AGES:
            assert SIZE <= entry.size < SIZE + 3 * 8192  # and the folders themselves


def test_named_entries_are_removed(root: Path) -> None:
    main(["--remove", "utterances-*", "comet/*"])
    assert left(root) == AGES.keys() - {"utterances-aa"}
    main(["--remove", "*"])
    assert left(root) == set()
    assert (root / "thesis" / "chapter.tex").is_file()


def test_entries_that_were_not_used_are_removed(root: Path) -> None:
    main(["--unused", "30d"])
    assert left(root) == {*AGES, "comet/cc.jsonl"} - {"minitalks-0"}
    main(["--unused", "84h"])
    assert left(root) == {CURRENT, "utterances-aa", "huggingface"}


def test_the_oldest_are_removed_until_the_rest_is_small_enough(root: Path) -> None:
    kept = {CURRENT, "utterances-aa", "huggingface"}
    main(["--limit", str(sum(entry.size for entry in entries(root) if entry.name in kept))])
    assert left(root) == kept
    main(["--limit", "1GB"])
    assert left(root) == kept
    main(["--limit", "0"])
    assert left(root) == set()


def test_a_dry_run_removes_nothing(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--limit", "0", "--dry-run"])
    assert len(capsys.readouterr().out.splitlines()) == 1 + 6 + 1
    assert left(root) == {*AGES, "comet/cc.jsonl"}


def test_a_folder_that_is_being_written_stays(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with locked(root / "encoded-bb"):
        main(["--remove", "*"])
    assert left(root) == {"encoded-bb"}
    assert "kept, being written: encoded-bb" in capsys.readouterr().out


def test_an_empty_or_missing_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SIMULZOO_CACHE", str(tmp_path / "none"))
    main([])
    main(["--limit", "1GB"])
    assert "0 entries, 0 B" in capsys.readouterr().out
    assert not (tmp_path / "none").exists()


def test_sizes_and_times_are_read() -> None:
    assert [parse_size(text) for text in ("10GB", "0.5 mb", "7", "1TB")] == [
        10**10,
        5 * 10**5,
        7,
        10**12,
    ]
    assert [parse_span(text) for text in ("12h", "30d", "4w")] == [43200, 30 * DAY, 28 * DAY]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--limit", "ten"], "needs a size such as 500MB or 10GB, not 'ten'"),
        (["--limit=-1GB"], "needs a size"),
        (["--limit", "9" * 400], "needs a size"),
        (["--unused", "30"], "needs a time such as 12h, 30d or 4w, not '30'"),
        (["--remove", "encoded"], "has no 'encoded'; it has: .*encoded-bb"),
        (["--remove", "thesis"], "has no 'thesis'"),
    ],
)
def test_refusals(root: Path, arguments: list[str], message: str) -> None:
    with pytest.raises(ZooError, match=message):
        main(arguments)
    assert len(left(root)) == 6
