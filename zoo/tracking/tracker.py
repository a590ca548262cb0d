"""Everything a run says about itself while it runs: to the run folder always, to W&B where it is on.

Knows no model and no metric: names and values come from the caller.
"""

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import yaml
from lightning.pytorch.loggers.logger import Logger

from zoo.files import write_text
from zoo.tracking import artifacts
from zoo.tracking.csv_logger import CsvLogger
from zoo.tracking.launch import default_environment, job, terminable
from zoo.tracking.provenance import git_state, provenance
from zoo.tracking.run import Run
from zoo.tracking.wandb_logger import WandbLogger, WandbSettings, start

if TYPE_CHECKING:
    import wandb

_INTERRUPTED = 130  # exit code of a shell command ended by Ctrl-C


class Tracker:
    """Context manager around all of a job's work, and the only one it needs: see ``track``."""

    def __init__(
        self,
        run: Run,
        *,
        config: Mapping[str, Any],
        overrides: Sequence[str],
        facts: Mapping[str, Any],
        settings: WandbSettings,
    ) -> None:
        self.run = run
        self._config = config
        self._overrides = list(overrides)
        self._facts = facts
        self._settings = settings
        self._csv = CsvLogger(run.folder)
        self._wandb: wandb.Run | None = None
        self._valid: dict[str, set[str]] = {}
        self._surroundings = ExitStack()

    def __enter__(self) -> Self:
        self._surroundings.enter_context(
            job(self.run.folder, multirun=self.run.multirun, overrides=self._overrides)
        )
        self._surroundings.enter_context(terminable())
        try:
            if self.run.main:
                self._start()
        except BaseException:
            self._surroundings.close()
            raise
        return self

    def _start(self) -> None:
        known = {**provenance(), **self._facts}
        written = self._write_provenance(known)
        environment = {"WANDB_DATA_DIR": str(self.run.folder / "wandb"), "WANDB_SILENT": "true"}
        self._surroundings.enter_context(default_environment(environment))
        config = {
            **self._config,
            "overrides": self._overrides,
            "provenance": known,
            "run_folder": str(self.run.folder),
        }
        self._wandb = start(self.run, self._settings, config)
        for path in written:
            self.log_file(path)

    def _write_provenance(self, known: Mapping[str, Any]) -> list[Path]:
        """config.yaml (resolved), overrides.yaml, provenance.json and, where the tree has changes, changes.diff.

        A resumed run that differs writes config.2.yaml and so on: what the first start did stays on record.
        """
        git = git_state()
        texts = {
            "config.yaml": yaml.safe_dump(dict(self._config), sort_keys=False, allow_unicode=True),
            "overrides.yaml": yaml.safe_dump(self._overrides, allow_unicode=True),
            "provenance.json": json.dumps(known, indent=1, ensure_ascii=False, default=str),
            "changes.diff": git.diff if git is not None else "",
        }
        return [_keep(self.run.folder / name, text) for name, text in texts.items() if text]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        online = self._wandb is not None and not self._wandb.offline
        try:
            self._ask(lambda wandb_run: wandb_run.finish(exit_code=exit_code(error)))
            if online and self._valid:
                self._ask(self._drop_stale)
        finally:
            self._wandb = None
            self._surroundings.close()

    def loggers(self) -> list[Logger]:
        """Loggers for a Lightning Trainer."""
        return [
            self._csv,
            *([WandbLogger(self.run, self._wandb)] if self._wandb is not None else []),
        ]

    def log_scores(
        self, prefix: str, scores: Mapping[str, float | None], *, knob: tuple[str, float] | None
    ) -> None:
        """Log ``<prefix>/<name>`` for each score (None: not measured), e.g. prefix ``tst/en-de``.

        knob: name and value of the latency setting, the axis of the scores: ``<prefix>/<knob name>``.
        """
        if not self.run.main:
            return
        axis = {f"{prefix}/{knob[0]}": knob[1]} if knob is not None else {}
        row = {f"{prefix}/{name}": value for name, value in scores.items() if value is not None}
        self._csv.log_metrics({**axis, **row})

        def log(wandb_run: "wandb.Run") -> None:
            for name in row if axis else ():
                wandb_run.define_metric(name, step_metric=next(iter(axis)))
            wandb_run.log({**axis, **row})

        self._ask(log)

    def log_table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """A table in W&B, such as the hypotheses beside their references."""

        def log(wandb_run: "wandb.Run") -> None:
            import wandb

            wandb_run.log(
                {name: wandb.Table(columns=list(columns), data=[list(row) for row in rows])}
            )

        self._ask(log)

    def log_curve(
        self,
        name: str,
        *,
        x: tuple[str, Sequence[float]],
        ys: Mapping[str, Sequence[float]],
        title: str = "",
    ) -> None:
        """Lines over one axis in W&B, such as BLEU over StreamLAAL. x: axis name and values; ys: values by label."""

        def log(wandb_run: "wandb.Run") -> None:
            import wandb

            lines = wandb.plot.line_series(
                xs=list(x[1]),
                ys=[list(y) for y in ys.values()],
                keys=list(ys),
                title=title or name,
                xname=x[0],
            )
            wandb_run.log({name: lines})

        self._ask(log)

    def log_image(self, name: str, path: Path) -> None:
        """A picture (PNG) in W&B."""

        def log(wandb_run: "wandb.Run") -> None:
            import wandb

            wandb_run.log({name: wandb.Image(str(path))})

        self._ask(log)

    def log_file(self, path: Path) -> None:
        """A file of the run folder, such as results.json or the report, among the W&B run's files."""
        self._ask(
            lambda wandb_run: wandb_run.save(
                str(path), base_path=str(self.run.folder), policy="now"
            )
        )

    def log_checkpoints(
        self,
        paths: Sequence[Path],
        *,
        best: Path | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Log what training keeps, once and at its end: the top-k checkpoint files and the exported folder.

        Earlier versions, of a start that this one resumed, are deleted from the server once the new ones are there.
        """

        def log(wandb_run: "wandb.Run") -> None:
            known = dict(metadata or {})
            self._valid = artifacts.log_artifacts(
                wandb_run, paths, run_id=self.run.id, best=best, metadata=known
            )

        self._ask(log)

    def use_checkpoint(self, path: Path, *, run_id: str) -> None:
        """Declare the exported folder or checkpoint file that training ``run_id`` made an input of this run."""

        def log(wandb_run: "wandb.Run") -> None:
            name = artifacts.use_artifact(wandb_run, path, run_id=run_id)
            wandb_run.config.update(
                {"model": {"artifact": name, "training_run": run_id}}, allow_val_change=True
            )

        self._ask(log)

    def _drop_stale(self, wandb_run: "wandb.Run") -> None:
        import wandb

        api = wandb.Api()
        for name, digests in self._valid.items():
            full = f"{wandb_run.entity}/{wandb_run.project}/{name}"
            artifacts.drop_stale(api.artifacts(artifacts.TYPE, full), digests)

    def _ask(self, action: Callable[["wandb.Run"], object]) -> None:
        """Do something with the W&B run if there is one; its failure costs a warning, never the run."""
        if self._wandb is None:
            return
        try:
            action(self._wandb)
        except Exception as error:
            warnings.warn(f"W&B: {type(error).__name__}: {error}", stacklevel=3)


def track(
    run: Run,
    *,
    config: Mapping[str, Any],
    overrides: Sequence[str] = (),
    facts: Mapping[str, Any] | None = None,
    settings: WandbSettings | None = None,
) -> Tracker:
    """``with track(open_run(...), ...) as tracker:`` around all of a job's work.

    config: the resolved configuration, plain values. overrides: of this job, as typed. facts: what else to keep, such
    as corpus hash, convention, batch size. On the way out, also by an exception or Ctrl-C, the W&B run is finished
    with the exit code the process will have, and the launcher's leavings are cleared for the next job of a multirun.
    """
    return Tracker(
        run,
        config=config,
        overrides=overrides,
        facts=facts or {},
        settings=settings or WandbSettings(),
    )


def exit_code(error: BaseException | None) -> int:
    """The exit code of a process that ends by ``error``."""
    if error is None:
        return 0
    if isinstance(error, KeyboardInterrupt):
        return _INTERRUPTED
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    return 1


def _keep(path: Path, text: str) -> Path:
    """Write ``text`` to ``path``, or to the next free ``name.2.suffix`` where another text stands already."""
    stem, number = path.stem, 1
    while path.exists() and path.read_text() != text:
        number += 1
        path = path.with_name(f"{stem}.{number}{path.suffix}")
    write_text(path, text)
    return path
