"""A tiny random InfiniSST, a small corpus in MuST-C's layout, and evaluate.py in this process."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from zoo.apps.evaluate import main as evaluate_command
from zoo.backbones.text.tokenizer import train_tokenizer
from zoo.base.audio import files as audio
from zoo.base.machine import launch
from zoo.config import build, compose

TINY = (
    "threads=1",
    "backbone.encoder.conv_channels=[4,4,4,4,4,4,8]",
    "backbone.encoder.hidden=16",
    "backbone.encoder.heads=2",
    "backbone.encoder.layers=1",
    "backbone.encoder.ff=24",
    "backbone.decoder.hidden_size=16",
    "backbone.decoder.intermediate_size=24",
    "backbone.decoder.num_hidden_layers=1",
    "backbone.decoder.num_attention_heads=2",
    "backbone.decoder.num_key_value_heads=2",
    "backbone.decoder.initializer_range=0.3",
    "backbone.decoder.tie_word_embeddings=false",
    "backbone.embedding_std=0.5",
    "backbone.search.tokens_per_chunk=5",
)
SEGMENTS = (
    (0.25, 1.5, "One two three.", "Eins zwei drei."),
    (2.0, 1.5, "Four five.", "Vier fünf."),
)


@dataclass(frozen=True)
class Result:
    """Exit code and printed text of a command."""

    code: int
    out: str
    err: str


Evaluate = Callable[..., Result]


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint folder with random weights of the TINY shape."""
    folder = tmp_path_factory.mktemp("model")
    tokenizer = folder / "tokenizer"
    train_tokenizer([target for *_, target in SEGMENTS], vocabulary_size=280).save_pretrained(
        tokenizer
    )
    cfg = compose(
        "evaluate", [*TINY, "backbone.checkpoint=null", f"backbone.tokenizer={tokenizer}"]
    )
    torch.manual_seed(0)
    system = build(cfg.system)
    system.configure_model()
    system.backbone.save(folder / "checkpoint")
    return folder / "checkpoint"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Two talks of 4 s of noise, two segments each: en-de of a MuST-C folder, tst-COMMON."""
    split = tmp_path / "corpus" / "en-de" / "data" / "tst-COMMON"
    (split / "txt").mkdir(parents=True)
    (split / "wav").mkdir()
    talks = ("ted_1", "ted_2")
    rows = [(talk, *segment) for talk in talks for segment in SEGMENTS]
    items = [
        f"- {{duration: {length}, offset: {start}, speaker_id: s, wav: {t}.wav}}"
        for t, start, length, *_ in rows
    ]
    for suffix, lines in (
        ("yaml", items),
        ("en", [row[3] for row in rows]),
        ("de", [row[4] for row in rows]),
    ):
        (split / "txt" / f"tst-COMMON.{suffix}").write_text("\n".join(lines) + "\n")
    for seed, talk in enumerate(talks):
        noise = torch.rand(4 * 16_000, generator=torch.Generator().manual_seed(seed)) - 0.5
        audio.write(split / "wav" / f"{talk}.wav", noise)
    return tmp_path / "corpus"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, no W&B account, no launcher."""
    for name in list(os.environ):
        if name.startswith(("WANDB_", "SIMULZOO_RUN", "SIMULZOO_LAUNCH")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def evaluate(
    here: Path, model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Evaluate:
    """``evaluate("key=value", ...)``: the tiny model without W&B, as from the command line."""

    def run(*overrides: str, tiny: bool = True) -> Result:
        launch.launch_name.cache_clear()
        given = [*TINY, f"backbone.checkpoint={model}", "logger=csv"] if tiny else []
        monkeypatch.setattr(sys, "argv", ["evaluate.py", *given, *overrides])
        code: object = 0
        try:
            evaluate_command()
        except SystemExit as left:
            code = left.code
        printed = capsys.readouterr()
        assert isinstance(code, int)
        return Result(code, printed.out, printed.err)

    return run


@pytest.fixture
def mustc(corpus: Path) -> list[str]:
    """The overrides that name ``corpus``."""
    return ["data=mustc", f"data.root={corpus}", "evaluation.split=tst-COMMON"]
