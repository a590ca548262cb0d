"""The tracker of a run: writes configuration, scores and files to the run folder and W&B.

The run folder always receives them, W&B only if it is enabled.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import yaml

from zoo.files import write_text
from zoo.tracking import artifacts
from zoo.tracking.launch import default_environment, job, terminable
from zoo.tracking.metrics_file import MetricsFile
from zoo.tracking.provenance import git_state, provenance
from zoo.tracking.run import Run
from zoo.tracking.wandb_run import WandbSettings, start
from zoo.tracking.weights import models

if TYPE_CHECKING:
    import wandb
    from lightning.pytorch.loggers.logger import Logger

logger = logging.getLogger(__name__)

LOADED = ("backbone", "synthesizer")  # parts of a configuration that have pretrained models
MODELS = "weights.json"  # the pretrained models of a run, in its folder

_INTERRUPTED = 130  # exit code of a shell command that Ctrl-C ended


class Tracker:
    """Context manager around all of a job's work.

    ``with Tracker(open_run(...), ...) as tracker:``. When the block ends, also by an exception or
    Ctrl-C, the W&B run is finished with the exit code of the process, and the environment variables
    of Lightning's launcher are removed for the next job of a multirun.

    Args:
        run: the run from ``open_run``.
        config: the resolved configuration as plain values.
        overrides: command line overrides of this job.
        facts: additional provenance, such as the hash of the corpus or the batch size.
        settings: W&B settings; None: the defaults.
    """

    def __init__(
        self,
        run: Run,
        *,
        config: Mapping[str, Any],
        overrides: Sequence[str] = (),
        facts: Mapping[str, Any] | None = None,
        settings: WandbSettings | None = None,
    ) -> None:
        self.run = run
        self._config = config
        self._overrides = list(overrides)
        self._facts = facts or {}
        self._settings = settings or WandbSettings()
        self._csv = MetricsFile(run.folder)
        self._wandb: wandb.Run | None = None
        self._artifact_digests: dict[str, set[str]] = {}
        self._contexts = ExitStack()

    def __enter__(self) -> Self:
        self._contexts.enter_context(
            job(self.run.folder, multirun=self.run.multirun, overrides=self._overrides)
        )
        self._contexts.enter_context(terminable())
        try:
            if self.run.main:
                self._start()
        except BaseException:
            self._contexts.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        online = self._wandb is not None and not self._wandb.offline
        try:
            self._with_wandb(lambda wandb_run: wandb_run.finish(exit_code=exit_code(error)))
            if online and self._artifact_digests:
                self._with_wandb(self._delete_stale_artifacts)
        finally:
            self._wandb = None
            self._contexts.close()

    def _start(self) -> None:
        facts = {**provenance(), **self._facts}
        files = self._write_provenance(facts)

        environment = {"WANDB_DATA_DIR": str(self.run.folder / "wandb"), "WANDB_SILENT": "true"}
        self._contexts.enter_context(default_environment(environment))
        config = {
            **self._config,
            "overrides": self._overrides,
            "provenance": facts,
            "run_folder": str(self.run.folder),
        }
        self._wandb = start(self.run, self._settings, config)
        for path in files:
            self.log_file(path)

    def _write_provenance(self, facts: Mapping[str, Any]) -> list[Path]:
        """Write config.yaml (resolved), overrides.yaml, provenance.json and changes.diff.

        changes.diff is written only if the working tree has changes. If a resumed run differs from
        its first start, it writes config.2.yaml and so on.
        """
        git = git_state()
        texts = {
            "config.yaml": yaml.safe_dump(dict(self._config), sort_keys=False, allow_unicode=True),
            "overrides.yaml": yaml.safe_dump(self._overrides, allow_unicode=True),
            "provenance.json": json.dumps(facts, indent=1, ensure_ascii=False, default=str),
            "changes.diff": git.diff if git is not None else "",
        }
        return [
            _write_numbered(self.run.folder / name, text) for name, text in texts.items() if text
        ]

    def record_models(self, config: Mapping[str, Any]) -> None:
        """Add the pretrained models of a system to ``weights.json``.

        Args:
            config: plain configuration of the system, whose models have been loaded.
        """
        if not self.run.main:
            return
        parts = {part: config[part] for part in LOADED if part in config}
        path = self.run.folder / MODELS
        recorded = json.loads(path.read_text()) if path.is_file() else []
        new = [model for model in models(parts) if model not in recorded]
        if not new:
            return
        write_text(path, json.dumps([*recorded, *new], indent=1) + "\n")
        self.log_file(path)
        weights = {"weights": [*recorded, *new]}
        self._with_wandb(lambda wandb_run: wandb_run.config.update(weights, allow_val_change=True))

    def loggers(self) -> "list[Logger]":
        """Return the loggers for a Lightning Trainer."""
        # imports Lightning, which a run without a Trainer does not need
        from zoo.tracking.loggers import CsvLogger, WandbLogger

        if self._wandb is None:
            return [CsvLogger(self._csv)]
        return [CsvLogger(self._csv), WandbLogger(self.run, self._wandb)]

    def log_scores(
        self, prefix: str, scores: Mapping[str, float | None], *, knob: tuple[str, float] | None
    ) -> None:
        """Log ``<prefix>/<name>`` for each score.

        Args:
            prefix: test set and language pair, such as ``tst/en-de``.
            scores: scores by name; None if a score was not computed.
            knob: name and value of the latency setting, logged as ``<prefix>/<knob name>`` and used
                as the axis of the scores in W&B.
        """
        if not self.run.main:
            return
        axis = {f"{prefix}/{knob[0]}": knob[1]} if knob is not None else {}
        row = {f"{prefix}/{name}": value for name, value in scores.items() if value is not None}
        self._csv.append({**axis, **row})

        def log(wandb_run: "wandb.Run") -> None:
            for axis_name in axis:
                for name in row:
                    wandb_run.define_metric(name, step_metric=axis_name)
            wandb_run.log({**axis, **row})

        self._with_wandb(log)

    def log_table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Log a table to W&B, such as hypotheses and references.

        Args:
            name: key of the table in W&B.
            columns: name of each column.
            rows: one value per column and row.
        """

        def log(wandb_run: "wandb.Run") -> None:
            import wandb

            data = [list(row) for row in rows]
            wandb_run.log({name: wandb.Table(columns=list(columns), data=data)})

        self._with_wandb(log)

    def log_curve(
        self,
        name: str,
        *,
        x: tuple[str, Sequence[float]],
        ys: Mapping[str, Sequence[float]],
    ) -> None:
        """Log a line plot to W&B, such as BLEU over StreamLAAL.

        Args:
            name: key of the plot in W&B.
            x: name and values of the horizontal axis.
            ys: values of each line by label.
        """

        def log(wandb_run: "wandb.Run") -> None:
            import wandb

            lines = wandb.plot.line_series(
                xs=list(x[1]),
                ys=[list(y) for y in ys.values()],
                keys=list(ys),
                title=name,
                xname=x[0],
            )
            wandb_run.log({name: lines})

        self._with_wandb(log)

    def log_image(self, name: str, path: Path) -> None:
        """Log a PNG image to W&B."""

        def log(wandb_run: "wandb.Run") -> None:
            import wandb

            wandb_run.log({name: wandb.Image(str(path))})

        self._with_wandb(log)

    def log_file(self, path: Path) -> None:
        """Upload a file of the run folder, such as results.json, to the W&B run's files."""
        base = str(self.run.folder)
        self._with_wandb(lambda wandb_run: wandb_run.save(str(path), base_path=base, policy="now"))

    def log_checkpoints(
        self,
        paths: Sequence[Path],
        *,
        best: Path | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Log a training's checkpoints to W&B, once, at the end of the training.

        After the upload, versions that an earlier start of the same run logged are deleted from the
        server.

        Args:
            paths: exported folders and checkpoint files; the last one is the latest.
            best: the path among ``paths`` that receives the alias ``best``.
            metadata: values that W&B shows with every artifact.
        """

        def log(wandb_run: "wandb.Run") -> None:
            self._artifact_digests = artifacts.log_artifacts(
                wandb_run, paths, run_id=self.run.id, best=best, metadata=dict(metadata or {})
            )

        self._with_wandb(log)

    def use_checkpoint(self, path: Path, *, run_id: str) -> None:
        """Declare a checkpoint an input of this W&B run.

        Args:
            path: exported folder or checkpoint file.
            run_id: id of the training run that wrote it.
        """

        def log(wandb_run: "wandb.Run") -> None:
            name = artifacts.use_artifact(wandb_run, path, run_id=run_id)
            model = {"artifact": name, "training_run": run_id}
            wandb_run.config.update({"model": model}, allow_val_change=True)

        self._with_wandb(log)

    def _delete_stale_artifacts(self, wandb_run: "wandb.Run") -> None:
        import wandb

        api = wandb.Api()
        for name, digests in self._artifact_digests.items():
            full_name = f"{wandb_run.entity}/{wandb_run.project}/{name}"
            artifacts.delete_stale(api.artifacts(artifacts.TYPE, full_name), digests)

    def _with_wandb(self, action: Callable[["wandb.Run"], object]) -> None:
        """Call ``action`` with the W&B run if there is one; an error is logged and not raised."""
        if self._wandb is None:
            return
        try:
            action(self._wandb)
        except Exception as error:
            logger.warning("W&B: %s: %s", type(error).__name__, error)


def exit_code(error: BaseException | None) -> int:
    """Return the exit code of a process that ``error`` ends; 0 for None."""
    if error is None:
        return 0
    if isinstance(error, KeyboardInterrupt):
        return _INTERRUPTED
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    return 1


def _write_numbered(path: Path, text: str) -> Path:
    """Write a text to a file.

    If the file exists with another text, the text is written to ``name.2.suffix``, and so on.

    Returns:
        The path of the file with the text.
    """
    stem, number = path.stem, 1
    while path.exists() and path.read_text() != text:
        number += 1
        path = path.with_name(f"{stem}.{number}{path.suffix}")
    path.write_text(text)
    return path
