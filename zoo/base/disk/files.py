"""Atomic writes: a reader sees the old file or folder, or the whole new one, even after a crash.

New content is written beside its destination, flushed to disk and then renamed. Two processes may
write one folder at the same time, but not one file: they take a lock first
(``zoo/data/cache.py``). A test checks that no other module writes files of its own.
"""

import errno
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from zoo.base.errors import ZooError, shorten

# Errors of a disk that takes no more: what is wrong with the disk, and what the user can do.
NO_MORE = {
    errno.ENOSPC: ("is full", "Free some space"),
    errno.EDQUOT: ("is full up to your quota", "Free some space"),
    errno.EFBIG: (
        "takes no file of that size (ulimit -f, or a file system such as FAT)",
        "Raise the limit or choose another disk",
    ),
    errno.EROFS: ("has become read-only", "Repair it or choose another one"),
}
# Messages of libraries that do not give the number of such an error.
WITHOUT_NUMBER = (
    "PytorchStreamWriter failed writing",
    "inline_container.cc",  # torch.save: "unexpected pos"
    " requested and ",  # NumPy: "1000 requested and 10 written"
)
# Errors of a path that the user can correct, or of a disk that the user can replace.
UNUSABLE = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG),
    *(errno.ELOOP, errno.EIO, errno.ESTALE, errno.EISDIR, errno.ENOTDIR),
)
NEARLY_NOTHING = 64 * 1024  # a disk with fewer free bytes than this counts as full
WANDB_LINK = "wandb/*/logs/debug-core.log"  # in a run folder, to the log of W&B's service
SUFFIX = ".part"  # suffix of a file that is not complete; the next attempt overwrites the file


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield the path of a temporary file, which becomes ``path`` when the block succeeds.

    After an error the temporary file is removed and ``path`` is as before.

    Raises ZooError for a folder that is missing or refuses files, and for a pipe or device, which
    the file would replace.
    """
    check_regular(path)
    if not path.name or not path.parent.is_dir():
        raise ZooError(f"{str(path)!r} cannot be written: there is no folder {path.parent}.")
    temporary = path.with_name(path.name + SUFFIX)
    # A copied folder may contain such a link, and writing would follow it.
    if temporary.is_symlink():
        temporary.unlink()
    try:
        yield temporary
        _sync(temporary)
        temporary.replace(path)
    except FileNotFoundError as error:
        if error.filename != str(temporary):
            raise
        raise ZooError(f"{path} cannot be written: {error.strerror}.") from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) and error.filename is None:
            error.filename = str(path)  # a write has none; ``full_disk`` names the disk by it
        raise
    finally:
        temporary.unlink(missing_ok=True)
    _sync(path.parent)


@contextmanager
def atomic_folder(path: Path, *, keep: bool = False) -> Iterator[Path]:
    """Yield a new empty folder to fill; it becomes ``path`` when the block ends without an error.

    Args:
        path: destination; its parent exists.
        keep: whether an existing ``path`` stays and the new folder is dropped (several ranks write
            equal content). Otherwise the new folder takes its place.
    """
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as temporary:
        new = Path(temporary) / path.name
        new.mkdir()
        yield new
        replace_folder(new, path, keep=keep)


def replace_folder(new: Path, path: Path, *, keep: bool = False) -> None:
    """Rename the complete folder ``new`` to ``path`` on the same file system.

    Args:
        new: folder with all its content; other processes no longer write to it.
        path: destination.
        keep: whether an existing ``path`` stays, and ``new`` where it is.
    """
    for item in new.rglob("*"):
        _sync(item)
    _sync(new)
    old = _old(path)
    if not keep:
        shutil.rmtree(old, ignore_errors=True)
        if path.exists():
            path.rename(old)
    try:
        new.rename(path)
    except OSError:
        if not keep or not path.is_dir():
            raise
    if not keep:
        shutil.rmtree(old, ignore_errors=True)
    _sync(path.parent)


def restore_folder(path: Path) -> None:
    """Put back the old folder if ``replace_folder`` was killed between its two renames.

    Several processes may call this function at the same time.
    """
    if not path.exists():
        with suppress(FileNotFoundError):
            _old(path).rename(path)


def _old(path: Path) -> Path:
    """Return the name of a folder while it is being replaced."""
    return path.with_name(f"{path.name}.old")


def check_regular(path: Path) -> None:
    """Raise ZooError for a pipe, a socket or a device: to read one may never end."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # it does not exist, or is no path
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise ZooError(f"{path} is a pipe, a socket or a device, not a file.")


def check_links(folder: Path) -> None:
    """Raise ZooError if a file in a folder is a link to a place outside of the folder, or no file.

    What continues the work of another person would write through such a link. W&B's own link to the
    log of its service is allowed: W&B makes it anew in each run and nothing writes to it.
    """
    root = folder.resolve()
    for path in folder.rglob("*"):
        if path.is_symlink() and path.match(WANDB_LINK):
            continue
        check_regular(path)
        if path.is_symlink() and not path.resolve().is_relative_to(root):
            raise ZooError(f"{path} is a link out of {folder}; replace it by a file.")


def check_name_is_text(path: Path) -> None:
    """Raise ZooError for a path that is not in UTF-8, such as a name of an old archive.

    Logs and reports, which are in UTF-8, cannot name it.
    """
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        try:
            shown = os.fsencode(path)
        except UnicodeEncodeError:  # half of a character beyond U+FFFF, which no name has
            shown = str(path).encode(errors="backslashreplace")
        raise ZooError(f"The path {shown!r} is not in UTF-8; rename the file or folder.") from error


def full_disk(error: BaseException | None, output_folder: Path) -> str:
    """Return a sentence if the cause of an error is a disk that takes no more; otherwise "".

    Args:
        error: the error.
        output_folder: folder that a program writes to, besides the cache and temporary files. If
            it does not exist, its nearest existing parent is used.
    """
    chain = []
    while error is not None:
        chain.append(error)
        error = error.__cause__ or error.__context__
    # A library may raise its own error, without the number, during that of the system.
    numbers = [*map(_number_of, chain), *map(_guessed_number, chain)]
    number = next((number for number in numbers if number is not None), None)
    if number is None:
        return ""
    others = [os.environ.get("SIMULZOO_CACHE", output_folder), os.path.expanduser("~")]
    with suppress(FileNotFoundError):  # Python looks for a folder that takes a file
        others.append(tempfile.gettempdir())
    named = [
        _existing(Path(one.filename).parent)
        for one in chain
        if isinstance(one, OSError) and _number_of(one) and isinstance(one.filename, str | Path)
    ]
    folders = [_existing(output_folder), *(Path(name) for name in others if Path(name).is_dir())]
    full = [folder for folder in folders if shutil.disk_usage(folder).free < NEARLY_NOTHING]
    folder = [*named, *full, *folders][0]  # ``folders`` is never empty: its first folder exists
    problem, advice = NO_MORE[number]
    return (
        f"The disk of {folder} {problem}; what was written before is kept. {advice} and start "
        "again, with resume=... where there is a run folder."
    )


def _number_of(error: BaseException) -> int | None:
    """Return the number of an error of a disk that takes no more; None for any other error."""
    if not isinstance(error, OSError) or error.errno is None:
        text = str(error)
        return next((number for number in NO_MORE if os.strerror(number) in text), None)
    # A read-only disk that refuses a path is described by ``unusable_path``.
    refused = error.errno == errno.EROFS and error.filename is not None
    return error.errno if error.errno in NO_MORE and not refused else None


def _guessed_number(error: BaseException) -> int | None:
    """Return the most frequent number for an error of a library that does not give it."""
    return errno.ENOSPC if any(words in str(error) for words in WITHOUT_NUMBER) else None


def _existing(folder: Path) -> Path:
    """Return a folder, or its nearest parent that exists."""
    return next(existing for existing in (folder, *folder.absolute().parents) if existing.is_dir())


def unusable_path(error: BaseException) -> str:
    """Return a sentence if the system refuses a path; empty for any other error.

    A missing file is another error, because the user need not have named it.

    Args:
        error: the error. Its cause is not examined: whoever has caught a refusal has handled it.
    """
    if not (isinstance(error, OSError) and error.errno in UNUSABLE and error.filename):
        return ""
    return f"{shorten(error.filename)} cannot be read or written: {error.strerror}."


def disk_problem(error: BaseException, output_folder: Path) -> str:
    """Return a sentence for an error of a full disk or of a path; empty for any other error.

    Args:
        error: the error.
        output_folder: folder that a program writes to, besides the cache and temporary files.
    """
    return full_disk(error, output_folder) or unusable_path(error)


@contextmanager
def explained_disk(folder: Path) -> Iterator[None]:
    """Raise ZooError for an error of a full disk, or of a path that the system refuses.

    Args:
        folder: folder that the block writes to, besides the cache and temporary files.
    """
    try:
        yield
    except Exception as error:
        sentence = "" if isinstance(error, ZooError) else disk_problem(error, folder)
        if not sentence:
            raise
        raise ZooError(sentence) from error


def check_can_be_written(folder: Path, key: str) -> None:
    """Raise ZooError if a folder cannot be made or written to.

    A temporary file is written to its nearest existing parent, because a file system such as
    /proc has permissions to write and refuses it.

    Args:
        folder: folder that the user names.
        key: key of the configuration that names it.
    """
    existing, reason = folder, ""
    try:
        existing = _existing_path(folder)
        if not existing.is_dir():
            reason = "is not a folder"
        else:
            with tempfile.TemporaryFile(dir=existing):
                pass
    except OSError as error:
        reason = f"cannot be written to: {error.strerror}"
    except ValueError as error:
        reason = f"is no path: {error}"
    if reason:
        raise ZooError(
            f"{key}={shorten(folder)}: {shorten(existing)} {reason}; choose another folder."
        )


def _existing_path(path: Path) -> Path:
    """Return a path, or its nearest parent that exists. Raises OSError if it cannot exist."""
    for candidate in (path.absolute(), *path.absolute().parents):
        with suppress(FileNotFoundError, NotADirectoryError):
            candidate.lstat()
            return candidate
    return Path(path.anchor)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a whole file atomically."""
    with atomic_file(path) as temporary:
        temporary.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    """Write a whole UTF-8 file atomically, line ends as given."""
    write_bytes(path, text.encode())


def create_text(path: Path, text: str) -> None:
    """Write a UTF-8 file that does not exist; of several processes, one does.

    A process that is killed while it writes leaves a damaged file.

    Raises:
        FileExistsError: the file exists.
    """
    with path.open("xb", buffering=0) as file:
        file.write(text.encode())
        os.fsync(file.fileno())
    _sync(path.parent)


def append_line(path: Path, line: str) -> None:
    """Append a UTF-8 line in one write, which other processes that append do not divide.

    A killed process loses no line. A power failure may lose the last ones, because flushing the
    disk for every line would slow down trainings; readers skip a line that is not complete.

    Args:
        path: file; it is created if there is none.
        line: text with its line end.
    """
    with path.open("ab", buffering=0) as file:
        file.write(line.encode())


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file; a process reads an unchanged file once."""
    facts = path.stat()
    return _digest(path.resolve(), facts.st_size, facts.st_mtime_ns, facts.st_ino)


@cache
def _digest(path: Path, size: int, modified: int, inode: int) -> str:
    """Return the SHA-256 of a file.

    Args:
        path: absolute path of the file.
        size: size in bytes; like the other arguments, another value means another content.
        modified: time of modification in nanoseconds.
        inode: number of the file in its file system.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    """Flush a file's content or a folder's entries to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems flush files but no folders.
        if not (path.is_dir() and error.errno in (errno.EINVAL, errno.ENOTSUP)):
            raise
    finally:
        os.close(descriptor)


def remove_if_empty(folder: Path) -> None:
    """Remove a folder without files, and its parents below the current folder if they are empty."""
    here = Path.cwd()
    remove_new(folder, [parent for parent in folder.parents if here not in parent.parents])


def remove_new(folder: Path, before: Collection[Path]) -> None:
    """Remove a folder without files, and its empty parents.

    Args:
        folder: folder, which need not exist.
        before: folders that stay.
    """
    for candidate in (folder, *folder.parents):
        if candidate in before:
            return
        try:
            candidate.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            return


def relative_path(path: Path) -> Path:
    """Return a path relative to the working directory if it lies below that directory."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def portable_name(name: str) -> str:
    """Return a name that is equal on every machine: of an absolute path, its last part only."""
    return Path(name).name if Path(name).is_absolute() else name
