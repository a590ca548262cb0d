"""Test sets of data=iwslt in which something is missing or blank: one sentence names it."""

from pathlib import Path

import pytest
import torch

from tests.evaluation.conftest import Evaluate
from zoo.base.audio import files as audio

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n\n"
KEYS = {"segments": "list.yaml", "audio": "audio", "transcripts": "en.txt", "references": "de.txt"}
TRANSCRIBE = "target_language=en data.references=null"
DAMAGED = {  # overrides, and the file that is replaced with its content: the sentence
    ("data.references=''", "", ""): "data.references of data=iwslt is blank; write a path or null.",
    ("data.transcripts=''", "", ""): "data.transcripts of data=iwslt is blank; write a path",
    ("data.audio=''", "", ""): "data.audio of data=iwslt is blank; write a path or null.",
    ("data.name=''", "", ""): "data.name needs a name of 1 to 200 bytes that can be printed",
    ("", "de.txt", POINTER): "de.txt is a pointer to a file that Git LFS keeps; fetch the file",
    (TRANSCRIBE, "en.txt", "One.\n\nThree.\nFour.\n"): (
        "Talk 'aa' has no transcript of 1 of its 2 segments, which are the references of systems "
        "that transcribe ('en')."
    ),
    (
        TRANSCRIBE,
        "en.txt",
        "One.\nTwo.\n\n\n",
    ): "Talk 'bb' has no transcript of 2 of its 2 segments",
}


@pytest.fixture
def campaign(here: Path) -> list[str]:
    """Two talks with two segments each in the current folder; overrides that name them."""
    names = ("aa", "bb")
    (here / "audio").mkdir()
    for seed, name in enumerate(names):
        noise = torch.rand(4 * 16_000, generator=torch.Generator().manual_seed(seed)) - 0.5
        audio.write(here / "audio" / f"{name}.wav", noise)
    spans = [(name, offset) for name in names for offset in (0.25, 2.0)]
    items = [f"- {{duration: 1.5, offset: {start}, wav: {name}.wav}}" for name, start in spans]
    (here / "list.yaml").write_text("\n".join(items) + "\n")
    (here / "en.txt").write_text("One two.\nThree.\nFour five.\nSix.\n")
    (here / "de.txt").write_text("Eins zwei.\nDrei.\nVier fünf.\nSechs.\n")
    return ["data=iwslt", *(f"data.{key}={file}" for key, file in KEYS.items())]


@pytest.mark.parametrize("case", DAMAGED)
def test_an_error_is_one_sentence(
    case: tuple[str, str, str], evaluate: Evaluate, campaign: list[str], here: Path
) -> None:
    given, file, content = case
    if file:
        (here / file).write_text(content)
    before = sorted(here.rglob("*"))
    done = evaluate(*campaign, *given.split())
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done
    assert DAMAGED[case] in done.err
    assert sorted(here.rglob("*")) == before
