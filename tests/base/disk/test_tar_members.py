"""Files that are read in tar archives."""

import io
import tarfile
from pathlib import Path

import pytest
import soundfile
import torch

from zoo.base.audio import files as audio
from zoo.base.disk.files import sha256
from zoo.base.disk.tar_members import index_path, member_of, write_index
from zoo.base.errors import ZooError
from zoo.base.talks import Talk
from zoo.data.fingerprint import audio_hash


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Two recordings at 8 kHz, one with a name longer than the field of a header."""
    path = tmp_path / "train-000000.tar"
    with tarfile.open(path, "w") as file:
        for number, name in enumerate(("a.wav", f"{'long' * 40}/b.flac"), start=1):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            soundfile.write(tmp_path / name, torch.linspace(0, 0.2 * number, 9000).numpy(), 8000)
            file.add(tmp_path / name, name)
    return path


@pytest.mark.parametrize("indexed", [False, True])
def test_a_member_is_the_file(archive: Path, tmp_path: Path, indexed: bool) -> None:
    if indexed:
        index_path(archive).write_text(write_index(archive, ""))
    for name in ("a.wav", f"{'long' * 40}/b.flac"):
        member = member_of(archive / name)
        assert member is not None
        with member.open() as file:
            assert file.read() == (tmp_path / name).read_bytes()
        assert audio.duration(archive / name) == 9000 / 8000
        for part in ({}, {"start": 0.3, "duration": 0.4}):
            found, expected = (audio.load(root / name, **part) for root in (archive, tmp_path))
            assert torch.equal(found, expected)
        assert audio_hash(Talk("t", archive / name, 1.0, "en", ())) == sha256(tmp_path / name)
    assert member_of(tmp_path / "a.wav") is None


def test_an_index_of_another_archive_is_not_used(archive: Path, tmp_path: Path) -> None:
    index_path(archive).write_text('{"size": 1, "members": {"a.wav": [0, 1]}}')
    assert torch.equal(audio.load(archive / "a.wav"), audio.load(tmp_path / "a.wav"))


@pytest.mark.parametrize(
    "members",
    [
        '{"a.wav": [-5, 3]}',
        '{"a.wav": [512, 1000000]}',
        '{"a.wav": [512, -1]}',
        '{"a.wav": [1e400, 3]}',
        '{"a.wav": [512.5, true]}',
        '{"a.wav": ["512", "3"]}',
        '{"a.wav": [512]}',
        '{"a.wav": "51"}',
        "[]",
    ],
)
def test_an_index_with_impossible_places_is_not_used(
    members: str, archive: Path, tmp_path: Path
) -> None:
    size = archive.stat().st_size
    index_path(archive).write_text(f'{{"size": {size}, "members": {members}}}')
    assert torch.equal(audio.load(archive / "a.wav"), audio.load(tmp_path / "a.wav"))


def header(name: str, *, kind: bytes = b"0", size: int = 0, content: bytes = b"") -> bytes:
    """Return a member whose header may declare another size than that of its content."""
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, size or len(content)
    return member.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512)


def pax(key: str, value: str) -> bytes:
    """Return a pax header with one record, whose length is below 100."""
    rest = f" {key}={value}\n".encode()
    return header("pax", kind=b"x", content=str(len(rest) + 2).encode() + rest)


LAST = header("a.wav", content=b"abc")
HOSTILE = {
    "a size below 0": header("a.wav", size=-512),
    "an endless loop": header("c") + header("b") + header("a", size=-1024),
    "a size beyond any file": header("a.wav", size=2**62),
    "a size beyond any number": header("a.wav", size=2**80),
    "another size below 0": pax("size", "-2048") + LAST,
    "another size beyond any number": pax("size", "9" * 30) + LAST,
    "thousands of long names": header("l", kind=b"L", content=b"n\0") * 3000 + LAST,
    "thousands of headers": pax("comment", "x") * 3000 + LAST,
    "a sparse member": header("a.wav", kind=b"S", content=b"abc"),
    "no member": b"",
}


@pytest.mark.parametrize("content", HOSTILE)
def test_a_hostile_archive_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(HOSTILE[content] + bytes(1024 if HOSTILE[content] else 0))
    with pytest.raises(ZooError, match=r"x\.tar is (damaged|truncated)"):
        audio.load(tmp_path / "x.tar" / "a.wav")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, b"6", b"Z"])
def test_a_link_or_device_is_no_member(kind: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(header("a.wav", kind=kind) + LAST.replace(b"a", b"b"))
    with pytest.raises(ZooError, match=r"x\.tar (has no file a\.wav|is damaged)"):
        audio.load(tmp_path / "x.tar" / "a.wav")


def test_archives_that_cannot_be_read_are_named(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(ZooError, match=r"train-000000\.tar has no file c\.wav"):
        audio.load(archive / "c.wav")
    content = archive.read_bytes()
    (tmp_path / "cut.tar").write_bytes(content[:3000])
    with pytest.raises(ZooError, match=r"cut\.tar is (damaged|truncated)"):
        audio.load(tmp_path / "cut.tar" / "a.wav")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as file:
        file.add(tmp_path / "a.wav", "a.wav")
    (tmp_path / "packed.tar").write_bytes(buffer.getvalue())
    with pytest.raises(ZooError, match=r"packed\.tar is damaged or compressed"):
        audio.load(tmp_path / "packed.tar" / "a.wav")
    with pytest.raises(ZooError, match="does not exist"):
        audio.load(tmp_path / "none.tar" / "a.wav")
