"""Files that are read in tar archives."""

import io
import json
import tarfile
from pathlib import Path

import pytest
import soundfile
import torch

from zoo.audio import files as audio
from zoo.data.fingerprint import audio_hash
from zoo.disk.files import sha256
from zoo.disk.tar_members import index_path, member_of, write_index
from zoo.errors import ZooError
from zoo.talks import Talk


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


@pytest.mark.parametrize("span", [[-5, 9], [0, -1], [0, 10**9], [10**400, 1]])
def test_an_index_out_of_its_archive_is_not_used(
    span: list[int], archive: Path, tmp_path: Path
) -> None:
    content = {"size": archive.stat().st_size, "members": {"a.wav": span}}
    index_path(archive).write_text(json.dumps(content))
    assert torch.equal(audio.load(archive / "a.wav"), audio.load(tmp_path / "a.wav"))


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
