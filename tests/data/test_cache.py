"""Checksums of the cache find damaged files; locks let any number of processes build at once."""

import errno
import fcntl
import multiprocessing
import multiprocessing.synchronize
from pathlib import Path

import pytest

from zoo.base.disk.files import append_line, write_text
from zoo.base.errors import ZooError
from zoo.data import cache
from zoo.data.cache import is_intact, lock_folder, seal, seal_if_complete

PROCESSES = 10


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data.bin"
    path.write_bytes(b"frames")
    seal(path)
    return path


def test_a_complete_file_is_intact(file: Path) -> None:
    assert is_intact(file)
    assert seal_if_complete(file)
    assert (file.parent / "data.bin.sha256").read_text().endswith("  data.bin\n")


@pytest.mark.parametrize("content", [b"", bytes(6), b"framed", b"fram"])
def test_a_damaged_file_is_found(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    assert not is_intact(file)
    assert not seal_if_complete(file)


def test_a_missing_file_is_found(file: Path) -> None:
    file.unlink()
    assert not is_intact(file)
    assert not seal_if_complete(file)


@pytest.mark.parametrize("content", ["", "\0" * 70, "0  data.bin\n", "\x80"])
def test_a_damaged_checksum_vouches_for_nothing(file: Path, content: str) -> None:
    (file.parent / "data.bin.sha256").write_text(content)
    assert not is_intact(file)
    assert not seal_if_complete(file)


def test_a_file_without_a_checksum_receives_one_unless_it_is_zeroed(tmp_path: Path) -> None:
    files = {"good": b"\0\0frames", "empty": b"", "zeroed": bytes(1 << 21)}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        assert not is_intact(tmp_path / name)
    assert [name for name in files if seal_if_complete(tmp_path / name)] == ["good"]
    assert is_intact(tmp_path / "good")


def build(folder: Path, start: "multiprocessing.synchronize.Barrier") -> None:
    """What every builder does: look, lock, look again, make."""
    start.wait()
    file = folder / "data.bin"
    if not is_intact(file):
        with lock_folder(folder):
            if not seal_if_complete(file):
                append_line(folder.parent / "built", "x")
                write_text(file, "frames")
                seal(file)
    append_line(folder.parent / "read", file.read_text() + "\n")


def test_ten_processes_build_once_and_all_read_it(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    start = context.Barrier(PROCESSES)
    folder = tmp_path / "entry"
    processes = [context.Process(target=build, args=(folder, start)) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * PROCESSES
    assert (tmp_path / "read").read_text() == "frames\n" * PROCESSES
    assert (tmp_path / "built").read_text() == "x"
    assert not list(tmp_path.rglob("*.part"))


def wait_for(folder: Path, waiting: "multiprocessing.synchronize.Event") -> None:
    cache.logger.info = lambda *_: waiting.set()  # type: ignore[method-assign]
    with lock_folder(folder):
        write_text(folder / "data.bin", "made")


def test_who_waited_for_a_folder_that_was_removed_makes_it_again(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    waiting = context.Event()
    folder = tmp_path / "entry"
    process = context.Process(target=wait_for, args=(folder, waiting))
    with lock_folder(folder):
        process.start()
        assert waiting.wait(60)
        (folder / ".lock").rename(tmp_path / "old-lock")
        folder.rmdir()
    process.join(60)
    assert process.exitcode == 0
    assert (folder / "data.bin").read_text() == "made"


def test_a_file_system_without_locks_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Lustre without the option ``flock`` and some NFS servers."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(ZooError, match=r"cannot lock files \(No locks available\)"):
        lock_folder(tmp_path).__enter__()
