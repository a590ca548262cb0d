"""Inputs that ended in a traceback or a signal; most were found by ``python -m tests.fuzz``."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.fuzz.strategies import replaced
from tests.fuzz.targets import (
    build_parts,
    finished,
    pickles,
    read_audio,
    read_finished,
    read_pickle,
    read_run,
    read_spans,
    sound,
)
from zoo.base.errors import ZooError

AIFF = sound("AIFF", "PCM_16")
# a sample rate of a few hertz: the memory of the resampled audio is thousands of times the file
SLOW = AIFF.replace(b"\x40\x0c\xfa\x00", b"\x40\x02\xfa\x00", 1)
FLAC = sound("FLAC", "PCM_16")
# a header with 64 billion samples: more memory than a machine has
LONG = FLAC[:21] + bytes([FLAC[21] | 0x0F]) + FLAC[22:]
DEEP = b"[" * 200_000

CRASHES: dict[str, Callable[[Path], object]] = {
    # libyaml recurses on the stack of C: a segmentation fault
    "nested segments": lambda folder: read_spans(DEEP, folder),
    "long audio": lambda folder: read_audio(LONG, folder),
    "slow audio": lambda folder: read_audio(SLOW, folder),
    "nested results": lambda folder: read_run(DEEP, folder),
    "a stream of null": lambda folder: read_finished(b"null\n", folder),
    "a stream without a number": lambda folder: read_finished(
        json.dumps(replaced(finished(), ("index",), {}, remove=False)).encode() + b"\n", folder
    ),
    "a flag of null": lambda folder: build_parts(
        ("infinisst", ("trainer", "_partial_"), None), folder
    ),
}


@pytest.mark.parametrize("name", CRASHES)
def test_a_crash_is_a_sentence(name: str, tmp_path: Path) -> None:
    with pytest.raises(ZooError):
        CRASHES[name](tmp_path)


def test_a_pickle_with_names_that_are_no_text(tmp_path: Path) -> None:
    content = pickles().replace(b"ctorch._utils", b"c\xfforch._utils")
    assert content != pickles()
    read_pickle(content, tmp_path)  # raises UnicodeDecodeError if a loader does
    with pytest.raises(UnicodeDecodeError):
        torch.load(tmp_path / "model.pt", weights_only=True)
