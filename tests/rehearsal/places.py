"""Where a rehearsal has its models, corpora and runs, and what the placeholders of pages mean."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.fixtures import fbk_layout
from tests.rehearsal import corpora
from tests.rehearsal.commands import Command, given
from tests.rehearsal.hub import write_hub


@dataclass
class Places:
    """The folders of a rehearsal.

    Attributes:
        folder: folder of everything.
    """

    folder: Path
    _started: set[str] = field(default_factory=set)

    @classmethod
    def make(cls, folder: Path) -> "Places":
        """Write models and corpora, unless the folder has them, and return the places."""
        places = cls(folder)
        for name, write in (
            ("hub", write_hub),
            ("mustc", corpora.mustc),
            ("realsi", corpora.realsi),
            ("covost2", corpora.covost2),
            ("runs", places._write_authors_files),
        ):
            if not (folder / name).exists():
                write(folder / name)
        places.logs.mkdir(parents=True, exist_ok=True)
        return places

    @property
    def runs(self) -> Path:
        """The folder in which commands run."""
        return self.folder / "runs"

    @property
    def logs(self) -> Path:
        """The folder of the output of commands."""
        return self.folder / "logs"

    @property
    def environment(self) -> dict[str, str]:
        """Variables of the environment: the hub is the cache of tiny models."""
        return {
            "HF_HUB_CACHE": str(self.folder / "hub"),
            "HF_HUB_OFFLINE": "1",
            "WANDB_MODE": "offline",
            "TRANSFORMERS_VERBOSITY": "error",
        }

    def values(self, command: Command) -> Mapping[str, str]:
        """Return what stands for the placeholders of a command."""
        prepared = str(self.runs / "prepared")
        mustc = str(self.folder / "mustc")
        corpus = given(command.words, "data")
        root = self.folder / corpus if corpus in ("realsi", "covost2") else self.folder / "mustc"
        common = {
            "mustc": mustc,
            "MuST-C": mustc,
            "root": str(root),
            "aligned": prepared,
            "talks": prepared,
            "prepared": prepared,
            "out": prepared,
            "recogniser": "facebook/wav2vec2-base-960h",
            "model": "meta-llama/Llama-3.1-8B-Instruct",
        }
        if run := self._newest("evaluate"):
            common |= {"run": str(run), "run folder": str(run)}
        if export := self._export(command):
            common["folder"] = str(export)
        return common

    def problem(self, command: Command, words: Sequence[str]) -> str:
        """Return what is wrong with the results of a command, in one sentence; empty if nothing."""
        if command.kind != "evaluate" or "smoke=true" in words:
            return ""
        run = self._newest("evaluate")
        if run is None:
            return "There is no run folder."
        results = sorted(run.rglob("results.json"))
        if not results:
            return f"{run} has no results.json."
        rows = [row for path in results for row in json.loads(path.read_text())]
        empty = [row["system"] for row in rows if not row["scores"]]
        return f"Rows without scores: {', '.join(empty)}." if empty else ""

    def _newest(self, job: str) -> Path | None:
        """Return the newest run folder of a job."""
        found = sorted((self.runs / "outputs" / job).glob("*"), key=os.path.getmtime)
        return found[-1] if found else None

    def _export(self, command: Command) -> Path | None:
        """Return the folder of weights that a command means by ``<folder>``."""
        exports = sorted(self.runs.glob("outputs/**/export"), key=os.path.getmtime)
        wanted = "infinisst" if "infinisst" in command.text else "phi4"
        fitting = [path for path in exports if wanted in str(path)]
        return fitting[-1] if fitting else None

    @staticmethod
    def _write_authors_files(runs: Path) -> None:
        """Write the files of other authors under the names that the pages give."""
        runs.mkdir(parents=True)
        fbk_layout.write(runs)
        for old, new in (
            ("checkpoint.pt", "checkpoint_avg7.pt"),
            ("config.yaml", "config_simul.yaml"),
            ("target.model", "target_vocab.model"),
            ("target.txt", "target_vocab.txt"),
        ):
            (runs / old).rename(runs / new)
