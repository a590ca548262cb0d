"""Where a rehearsal has its models, corpora and runs, and what the placeholders of pages mean."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoTokenizer

from tests.data.readers.forms import SPLIT
from tests.fixtures import fbk_layout, xtts_environment
from tests.fixtures.comet_environment import imitation
from tests.fixtures.documents import pdf
from tests.fixtures.infinisst_layout import released_weights
from tests.fixtures.loudness import write_utmos
from tests.fixtures.mfa import write_mfa
from tests.fixtures.tiny_models import ENCODER, exported
from tests.formats.test_streamuni import STREAM
from tests.formats.test_streamuni import log as streamuni_log
from tests.rehearsal import corpora
from tests.rehearsal.commands import ROOT, Command, given
from tests.rehearsal.hub import write_hub
from tests.rehearsal.small import COMET_PYTHON, LENIENT
from zoo.backbones.architectures.speech_llm.released import SPEECH_TOKENS
from zoo.base.disk.files import remove_if_empty
from zoo.base.errors import ZooError

LATENCIES = 4  # latency tokens of InfiniSST's released checkpoints
SMALL = "checkpoints/"  # of the repository: the small models
RECOGNISER = "facebook/wav2vec2-base-960h"
ABLATIONS = ("m1", "m2", "m4", "m12", "utterances", "ws10", "ws20", "ws30", "llama3")
MIXTURES = (
    "non_streaming",
    "partial_and_non_streaming",
    "streaming",
    "streaming_and_non_streaming",
    "streaming_double",
    "streaming_half",
)


@dataclass
class Places:
    """The folders of a rehearsal.

    Attributes:
        folder: folder of everything.
    """

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> "Places":
        """Write models and corpora, unless the folder has them, and remove runs of before."""
        places = cls(folder)
        shutil.rmtree(places.runs, ignore_errors=True)
        for name, write in (
            ("hub", write_hub),
            ("mustc", corpora.mustc),
            ("realsi", corpora.realsi),
            ("covost2", corpora.covost2),
            ("others", corpora.others),
            ("lst", partial(exported, "lst_minitalks")),
            ("utmos.pt", write_utmos),
            ("xtts", xtts_environment.weights),
            ("xtts-environment", xtts_environment.environment),
            ("bin", write_programs),
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
        """Variables of the environment; the cache of the hub has the tiny models."""
        return {
            "PYTHONPATH": str(ROOT),  # of this checkout, whichever is installed
            "HF_HUB_CACHE": str(self.folder / "hub"),
            "HF_HUB_OFFLINE": "1",
            "WANDB_MODE": "offline",
            "TRANSFORMERS_VERBOSITY": "error",
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        }

    def values(self, command: Command) -> Mapping[str, str]:
        """Return what stands for the placeholders of a command.

        Raises:
            ZooError: a placeholder means the result of an earlier command, and there is none.
        """
        mustc = str(self.folder / "mustc")
        source = given(command.words, "source_language") or "en"
        target = given(command.words, "target_language") or "de"
        values = {
            "mustc": mustc,
            "MuST-C": mustc,
            "out": str(self.runs / "prepared"),
            "recogniser": RECOGNISER,
            "model": "meta-llama/Llama-3.1-8B-Instruct",
            "path": str(self.folder / "utmos.pt"),
            "xtts": str(self.folder / "xtts"),
            "output.json": str(streamuni_log(self.folder, STREAM)),
            "voice.wav": str(self.folder / "xtts" / "voice.wav"),
            **self._corpus(given(command.words, "data")),
        }
        for name in ("aligned", "talks", "prepared"):
            if f"<{name}>" in command.text:
                values[name] = str(self._prepared(source, target))
        for name, pair in {"en_zh": ("en", "zh"), "fr_en": ("fr", "en")}.items():
            if f"<{name}>" in command.text:
                prepares = command.kind == "prepare"
                values[name] = str(self.runs / name if prepares else self._prepared(*pair))
        values |= self._context()
        if "<recordings>" in command.text:
            values["recordings"] = str(self._recordings())
        if trained := re.search("<(run|run folder)>/export", command.text):
            values[trained[1]] = str(self._export(command).parent)
        elif finished := re.search("<(run|run folder)>", command.text):
            values[finished[1]] = str(self._newest(command))
        if re.search(r"(?:checkpoint|name|weights\.\w+)=<folder>", command.text):
            values["folder"] = str(self._weights(command))
        return values

    def _context(self) -> Mapping[str, str]:
        """Return the placeholders of glossaries and documents, which the first call writes."""
        folder = self.folder / "context"
        if not folder.exists():
            (folder / "papers").mkdir(parents=True)
            (folder / "papers" / "talk.pdf").write_bytes(pdf("On reading books", "by Anna Byron"))
            (folder / "terms.txt").write_text("book\tBuch\nAnna\nold man\talter Mann\n")
        return {
            "terms.txt": str(folder / "terms.txt"),
            "paper.pdf": str(folder / "papers" / "talk.pdf"),
            "papers": str(folder / "papers"),
            "glossaries": str(self.runs / "glossaries"),
        }

    def _recordings(self) -> Path:
        """Return a folder with one recording and its transcript, which the first call writes."""
        folder = self.folder / "recordings"
        if not folder.exists():
            folder.mkdir()
            wave = min((self.folder / "mustc").rglob("*.wav"))
            shutil.copy(wave, folder / "talk.wav")
            (folder / "talk.en.tsv").write_text("0.0\t3.0\tThe old man reads a book.\n")
        return folder

    def _prepared(self, source: str, target: str) -> Path:
        """Return the folder of prepared talks of a direction, which the first call prepares."""
        folder = self.folder / "prepared" / f"{source}-{target}"
        if folder.exists():
            return folder
        corpus = ["data=mustc", f"data.root={self.folder / 'mustc'}"]
        steps = ["word_times=ctc", f"word_times.name={RECOGNISER}", "word_alignment=similarity"]
        if source != "en":
            corpus = ["data=covost2", f"data.root={self.folder / 'covost2'}"]
        languages = [f"source_language={source}", f"target_language={target}"]
        done = subprocess.run(
            [
                *(sys.executable, "-m", "zoo", "prepare", *corpus, *steps, *languages, *LENIENT),
                *(f"prepare.folder={folder}", "logger=csv"),
            ],
            cwd=self.runs,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ZooError(f"Preparing {folder.name} failed: {done.stderr.strip()[-200:]}")
        return folder

    def link_exports(self) -> None:
        """Put models where ``size=published`` expects those of trainings that no command does.

        These are the models of further languages and ablations. Links stand for them.
        """
        outputs = self.runs / "outputs"
        ablations = outputs / "ablations_published"
        trained = outputs / "infinisst_paper" / "infinisst_llama8b_en-zh" / "stage2" / "export"
        if trained.exists():
            for code in ("de", "es"):
                _link(outputs / "infinisst_paper" / f"infinisst_llama8b_en-{code}", trained)
            for name in ABLATIONS:
                _link(ablations / name, trained)
        if exports := self._exports("phi4_multimodal"):
            for pair in ("en-de", "en-zh"):
                for name in MIXTURES:
                    _link(ablations / f"streamuni_mixture_{pair}" / name, exports[0], below="")
        converted = self.runs / "fbk_en-de"
        if converted.exists() and not (link := self.runs / "fbk_en-es").exists():
            link.symlink_to(converted)
        trained = outputs / "lst_paper" / "lst_llama8b_en-zh" / "stage2" / "export"
        if trained.exists():
            for code in ("de", "es"):
                _link(outputs / "lst_paper" / f"lst_llama8b_en-{code}", trained)
        trained = outputs / "learned_wait" / "qwen3_omni_en-zh" / "export"
        if trained.exists():
            _link(outputs / "learned_wait" / "qwen3_omni_en-de", trained, below="")

    def unlink_exports(self) -> None:
        """Remove the links, and the empty folders of the trainings for which they stand."""
        for link in [path for path in self.runs.glob("outputs/**/export") if path.is_symlink()]:
            link.unlink()
            for folder in (link.parent, link.parent.parent):
                remove_if_empty(folder)

    def _corpus(self, data: str | None) -> Mapping[str, str]:
        """Return the placeholders that a corpus fills."""
        root = self.folder / (data if data in ("realsi", "covost2") else "mustc")
        others = self.folder / "others" / str(data)
        if others.is_dir():
            root = others / SPLIT if data == "folder" else others
        audio = root / "wavs"  # of IWSLT
        return {
            "root": str(root),
            "folder": str(audio if audio.is_dir() else root),
            "tst.yaml": str(root / "tst.yaml"),
            "tst.en": str(root / "tst.en"),
            "tst.de": str(root / "tst.de"),
            "mcif": str(self.folder / "others" / "mcif"),
            "cuts.jsonl.gz": str(root / "cuts_test.jsonl.gz"),
        }

    def _weights(self, command: Command) -> Path:
        """Return the folder of weights that a command names."""
        backbone = given(command.words, "backbone") or ""
        if backbone == "whisper":
            return self._cached("openai/whisper-small")
        if backbone == "seamless_m4t_speech":
            return self._cached("facebook/hf-seamless-m4t-medium")
        if "lst" in (backbone, (given(command.words, "experiment") or "").partition("_")[0]):
            trained = self._exports("lst_llama8b")
            is_large = given(command.words, "size") == "llama8b"
            return trained[-1] if trained and is_large else self.folder / "lst" / "model"
        return self._export(command)

    def problem(self, command: Command, words: Sequence[str]) -> str:
        """Return what is wrong with the results of a command, in one sentence; empty if nothing."""
        if command.kind != "evaluate" or "smoke=true" in words:
            return ""
        run = self._newest()
        results = sorted(run.rglob("results.json"))
        if not results:
            return f"{run} has no results.json."
        rows = [row for path in results for row in json.loads(path.read_text())]
        return next((problem for row in rows if (problem := _row_problem(row, words))), "")

    def _cached(self, model: str) -> Path:
        """Return the folder of a model in the cache of the hub."""
        name = f"models--{model.replace('/', '--')}"
        return next((self.folder / "hub" / name / "snapshots").iterdir())

    def _newest(self, command: Command | None = None) -> Path:
        """Return the newest folder of an evaluation, or of a multirun of evaluations.

        Args:
            command: report that needs it; the page says which run it means, which is here the
                newest with the scores that the command names.
        """
        words = [] if command is None else command.words
        scores = words[words.index("--scores") + 1].split(",") if "--scores" in words else []
        runs = sorted((self.runs / "outputs" / "evaluate").glob("*"), key=os.path.getmtime)
        for run in reversed(runs):
            results = [path.read_text(encoding="utf-8") for path in run.rglob("results.json")]
            if results and all(f'"{score}"' in "".join(results) for score in scores):
                return run
        raise ZooError("It needs a finished evaluation, and no command before it has one.")

    def _export(self, command: Command) -> Path:
        """Return the newest export of a training of the command's backbone."""
        named = given(command.words, "backbone") or ""
        is_large = named in ("infinisst", "phi4_multimodal") or (
            given(command.words, "size") in ("published", "llama8b")
        )
        if named.startswith("learned_wait"):
            backbone = named
        elif "infinisst" in command.text:
            backbone = "infinisst_llama8b" if is_large else "infinisst_minitalks"
        else:
            backbone = "phi4_multimodal" if is_large else "phi4_minitalks"
        if exports := self._exports(backbone):
            return exports[-1]
        raise ZooError(f"It needs an export of {backbone}, and no command before it wrote one.")

    def _exports(self, backbone: str) -> Sequence[Path]:
        """Return the exports of trainings of a backbone, the newest last."""
        exports = [path for path in self.runs.glob("outputs/**/export") if not path.is_symlink()]
        line = f"  - backbone={backbone}\n"
        fitting = [path for path in exports if line in (path / "config.yaml").read_text()]
        return sorted(fitting, key=os.path.getmtime)

    def _write_authors_files(self, runs: Path) -> None:
        """Write the files of other authors under the names that the pages give."""
        runs.mkdir(parents=True)
        llama = self._cached("meta-llama/Llama-3.1-8B-Instruct")
        shape = AutoConfig.from_pretrained(llama)
        weights = released_weights(
            len(AutoTokenizer.from_pretrained(llama)) + len(SPEECH_TOKENS) + LATENCIES,
            layers=ENCODER["layers"],
            llm_heads=shape.num_attention_heads,
            llm_layers=shape.num_hidden_layers,
        )
        torch.save(weights, runs / "pytorch_model.bin")
        fbk_layout.write(runs)
        for old, new in (
            ("checkpoint.pt", "checkpoint_avg7.pt"),
            ("config.yaml", "config_simul.yaml"),
            ("target.model", "target_vocab.model"),
            ("target.txt", "target_vocab.txt"),
        ):
            (runs / old).rename(runs / new)


def write_programs(folder: Path) -> None:
    """Write the programs that stand for MFA, and for the Python of COMET's environment."""
    write_mfa(folder)
    imitation(folder).rename(folder / COMET_PYTHON)


def _row_problem(row: Mapping[str, Any], words: Sequence[str]) -> str:
    """Return what is wrong with a row, in one sentence; empty if nothing.

    Args:
        row: row of ``results.json``.
        words: words of the command, with placeholders filled.
    """
    name = f"The row {row['system']!r}"
    if not row["scores"]:
        return f"{name} has no scores."
    if row["kind"] == "oracle" or "system=replay" in words:
        return ""
    weights = row["settings"].get("weights", {})
    if not weights:
        return f"{name} names no weights."
    if given(words, "size") == "published" and (
        small := [w for w in weights.values() if SMALL in w]
    ):
        return f"{name} has the small model {small[0]}."
    for key in ("source_language", "target_language"):
        code = given(words, key)
        if code is not None and row[key] not in code.split(","):
            return f"{name} is {row['source_language']}-{row['target_language']}, not {key}={code}."
    named = given(words, "backbone.name") or given(words, "backbone.checkpoint")
    if named is not None and named not in weights.values():
        return f"{name} has the weights {', '.join(weights.values())}, not {named}."
    return ""


def _link(training: Path, export: Path, *, below: str = "stage2") -> None:
    """Let a training that has not been run have the export of another one.

    Args:
        training: folder of the training.
        export: export of the other one.
        below: folder below that of the training which has its export.
    """
    link = training / below / "export"
    if not link.exists():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(export)
