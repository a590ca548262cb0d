"""Atomic writes: old or new content, never a part of it."""

import errno
import os
import stat
from pathlib import Path

import pytest

from zoo.base.disk.files import (
    atomic_file,
    atomic_folder,
    replace_folder,
    restore_folder,
    write_bytes,
    write_text,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old\r\nä")
    assert path.read_bytes() == b"old\r\n\xc3\xa4"
    with atomic_file(path) as temporary:
        temporary.write_text("new")
        assert path.read_bytes().startswith(b"old")
    assert path.read_text() == "new"
    assert names(tmp_path) == ["a.txt"]


def test_an_error_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    write_bytes(path, b"old")

    def write_half(temporary: Path) -> None:
        temporary.write_bytes(b"ne")
        raise RuntimeError

    with pytest.raises(RuntimeError), atomic_file(path) as temporary:
        write_half(temporary)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a.bin"]


def test_a_folder_is_replaced_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for content in ("old", "new"):
        with atomic_folder(path) as folder:
            (folder / "below").mkdir()
            (folder / "below" / content).touch()
            assert not (path / "below" / content).exists()
        assert names(path / "below") == [content]
    with pytest.raises(RuntimeError), atomic_folder(path):
        raise RuntimeError
    assert names(path / "below") == ["new"]
    assert names(tmp_path) == ["a"]
    assert path.stat().st_mode & 0o777 == (path / "below").stat().st_mode & 0o777


class KilledError(BaseException):
    """Stands for SIGKILL."""


def test_a_folder_that_was_being_replaced_is_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, new = tmp_path / "run", tmp_path / "new"
    for folder in (path, new):
        folder.mkdir()
        write_text(folder / "name", folder.name)
    rename = Path.rename

    def killed_at_the_second(self: Path, target: Path) -> Path:
        if self == new:
            raise KilledError
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", killed_at_the_second)
    with pytest.raises(KilledError):
        replace_folder(new, path)
    assert not path.exists()
    for _ in range(2):  # a second process finds the folder in its place
        restore_folder(path)
        assert (path / "name").read_text() == "run"


def test_an_existing_folder_can_stay(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for content in ("first", "second"):
        with atomic_folder(path, keep=True) as folder:
            (folder / content).touch()
    assert names(path) == ["first"]
    assert names(tmp_path) == ["a"]
    with pytest.raises(FileNotFoundError):
        replace_folder(tmp_path / "none", tmp_path / "b")
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError), atomic_folder(tmp_path / "file", keep=True) as folder:
        (folder / "content").touch()


def test_a_file_system_that_flushes_no_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As some network file systems; any other error is raised, also one of a file."""
    flush = os.fsync

    def refuse(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(code, "refused")
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", refuse)
    code = errno.EINVAL
    write_text(tmp_path / "a", "kept")
    assert (tmp_path / "a").read_text() == "kept"
    code = errno.EIO
    with pytest.raises(OSError, match="refused"):
        write_text(tmp_path / "b", "lost")
