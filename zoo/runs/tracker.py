"""The tracker of a run: writes configuration, scores and files to the run folder and W&B.

The run folder always receives them, W&B only if it is enabled.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import yaml

from zoo.base.disk.files import write_text
from zoo.base.disk.parsing import parse_json
from zoo.base.disk.run_folder import OVERRIDES, PROVENANCE
from zoo.base.errors import INTERRUPTED, ZooError
from zoo.base.machine.hints import SCRIPTS
from zoo.base.machine.launch import default_environment, job
from zoo.base.machine.signals import exit_code_of_signal, interruptible
from zoo.runs import artifacts
from zoo.runs.metrics_file import MetricsFile
from zoo.runs.naming import run_tags
from zoo.runs.outside_code import outside_code
from zoo.runs.provenance import git_state, provenance
from zoo.runs.rows.training import WANDB_ADDRESS
from zoo.runs.run import Run
from zoo.runs.wandb_run import WandbRun, WandbSettings, start
from zoo.runs.weights import models

if TYPE_CHECKING:
    import wandb
    from lightning.pytorch.loggers.logger import Logger

MODELS = "weights.json"  # the pretrained models of a run, in its folder


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
        systems: configuration of each system by its name. W&B receives it as ``systems``; the
            values of several systems are not at the top level of its configuration.
    """

    def __init__(
        self,
        run: Run,
        *,
        config: Mapping[str, Any],
        overrides: Sequence[str] = (),
        facts: Mapping[str, Any] | None = None,
        settings: WandbSettings | None = None,
        systems: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.run = run
        self._config = config
        self._overrides = list(overrides)
        self._facts = facts or {}
        self._settings = settings or WandbSettings()
        self._systems = systems or {}
        self._csv = MetricsFile(run.folder)
        self._wandb: WandbRun | None = None
        self._artifact_digests: dict[str, set[str]] = {}
        self._contexts = ExitStack()

    def __enter__(self) -> Self:
        self._contexts.enter_context(
            job(self.run.folder, multirun=self.run.multirun, overrides=self._overrides)
        )
        resumable = self.run.kind in SCRIPTS
        advice = f"resume={self.run.folder} continues it" if resumable else ""
        self._contexts.enter_context(interruptible(advice, with_sigterm=True))
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
        code = exit_code_of_signal() or exit_code(error)
        try:
            if self._wandb is not None:
                self._wandb.finish(code)
            if online and self._artifact_digests:
                self._with_wandb(self._delete_stale_artifacts)
        finally:
            self._wandb = None
            self._contexts.close()

    def _start(self) -> None:
        outside = outside_code([self._config, self._systems])
        facts = {**provenance(), **({"outside": outside} if outside else {}), **self._facts}
        files = self._write_provenance(facts)

        environment = {"WANDB_DATA_DIR": str(self.run.folder / "wandb"), "WANDB_SILENT": "true"}
        self._contexts.enter_context(default_environment(environment))
        tags = run_tags(list(self._systems), self._overrides)
        self._wandb = start(self.run, self._settings, self._wandb_config(facts), tags)
        if self._wandb is not None and not self._wandb.offline:
            path = self.run.folder / WANDB_ADDRESS
            self._with_wandb(lambda wandb_run: write_text(path, f"{wandb_run.url}\n"))
        for path in files:
            self.log_file(path)

    def _wandb_config(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Return the configuration that W&B receives."""
        several = list(self._systems.values()) if len(self._systems) > 1 else []
        own = {key for system in several for key in system}
        return {
            **{key: value for key, value in self._config.items() if key not in own},
            "systems": dict(self._systems),
            "overrides": self._overrides,
            "provenance": dict(facts),
            "run_folder": str(self.run.folder),
        }

    def _write_provenance(self, facts: Mapping[str, Any]) -> list[Path]:
        """Write config.yaml (resolved), overrides.yaml, provenance.json and changes.diff.

        changes.diff is written only if the working tree has changes. If a resumed run differs from
        its first start, it writes config.2.yaml and so on.
        """
        git = git_state()
        texts = {
            "config.yaml": yaml.safe_dump(dict(self._config), sort_keys=False, allow_unicode=True),
            OVERRIDES: yaml.safe_dump(self._overrides, allow_unicode=True),
            PROVENANCE: json.dumps(facts, indent=1, ensure_ascii=False, default=str),
            "changes.diff": git.diff if git is not None else "",
        }
        return [
            _write_numbered(self.run.folder / name, text) for name, text in texts.items() if text
        ]

    def record_models(self, config: Mapping[str, Any]) -> None:
        """Add the pretrained models of a system to ``weights.json``; declare them inputs in W&B.

        Args:
            config: plain configuration of the system, whose models have been loaded.
        """
        if not self.run.main:
            return
        path = self.run.folder / MODELS
        recorded = _recorded(path)
        new = [model for model in models(config) if model not in recorded]
        if not new:
            return
        write_text(path, json.dumps([*recorded, *new], indent=1) + "\n")
        self.log_file(path)
        self._with_wandb(lambda wandb_run: _declare(wandb_run, new, [*recorded, *new]))

    def loggers(self) -> "list[Logger]":
        """Return the loggers for a Lightning Trainer."""
        # imports Lightning, which a run without a Trainer does not need
        from zoo.runs.loggers import CsvLogger, WandbLogger

        if self._wandb is None:
            return [CsvLogger(self._csv)]
        return [CsvLogger(self._csv), WandbLogger(self.run, self._wandb)]

    def log_scores(
        self,
        prefix: str,
        scores: Mapping[str, float | None],
        *,
        labels: Mapping[str, str],
        charted: Sequence[str] = (),
        axis: str | None = None,
    ) -> None:
        """Log ``<prefix>/<name>`` for each score, under keys that all systems share.

        Args:
            prefix: test set and language pair, such as ``tst/en-de``.
            scores: scores by name; None if a score was not computed. ``metrics.csv`` has them all.
            labels: what the scores belong to, such as the system and its latency setting.
            charted: names of the scores that W&B receives; none: W&B receives nothing.
            axis: name of the score that is the horizontal axis of the others in W&B.
        """
        if not self.run.main:
            return
        named = {name: " ".join(value.split()) for name, value in labels.items()}
        row = {f"{prefix}/{name}": value for name, value in scores.items() if value is not None}
        self._csv.append({**named, **row})
        shown = [f"{prefix}/{name}" for name in charted if f"{prefix}/{name}" in row]

        def log(wandb_run: "wandb.Run") -> None:
            for name in named:
                wandb_run.define_metric(name, summary="none")
            for name in shown:
                wandb_run.define_metric(name, step_metric=axis and f"{prefix}/{axis}")
            wandb_run.log({**named, **{name: row[name] for name in shown}})

        if shown:
            self._with_wandb(log)

    def log_summary(self, values: Mapping[str, float | str]) -> None:
        """Set values of the W&B run's summary, which W&B's table of runs shows."""
        self._with_wandb(lambda wandb_run: wandb_run.summary.update(dict(values)))

    def log_media(self, name: str, make: Callable[[], object]) -> None:
        """Log a table, chart, image, page or audio to W&B.

        Args:
            name: key in W&B.
            make: returns the value (``zoo.runs.media``); called only if there is a W&B run.
        """
        self._with_wandb(lambda wandb_run: wandb_run.log({name: make()}))

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
                wandb_run,
                paths,
                run_id=self.run.id,
                best=best,
                metadata=metadata,
                by_reference=self._settings.by_reference(self.run),
            )

        self._with_wandb(log)

    def log_dataset(
        self, name: str, paths: Sequence[Path], *, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Log the files of a data set to W&B as an artifact.

        Args:
            name: name of the data set.
            paths: its files, which are uploaded.
            metadata: values that W&B shows with the artifact.
        """
        self._with_wandb(
            lambda wandb_run: wandb_run.log_artifact(
                artifacts.dataset_artifact(name, paths, metadata=metadata)
            )
        )

    def _delete_stale_artifacts(self, wandb_run: "wandb.Run") -> None:
        import wandb

        api = wandb.Api()
        for name, digests in self._artifact_digests.items():
            full_name = f"{wandb_run.entity}/{wandb_run.project}/{name}"
            artifacts.delete_stale(api.artifacts(artifacts.TYPE, full_name), digests)

    def _with_wandb(self, action: Callable[["wandb.Run"], object]) -> None:
        """Call ``action`` with the W&B run if there is one."""
        if self._wandb is not None:
            self._wandb.do(action)


def _declare(
    wandb_run: "wandb.Run", new: Sequence[dict[str, Any]], known: Sequence[dict[str, Any]]
) -> None:
    """Declare models inputs of a W&B run.

    Args:
        wandb_run: the W&B run.
        new: the models to declare, as ``weights.json`` describes them.
        known: all models of the run, for its configuration, without the hashes of their files.
    """
    facts = [{key: model[key] for key in ("name", "revision", "commit")} for model in known]
    wandb_run.config.update({"weights": facts}, allow_val_change=True)
    for model in new:
        artifacts.use_artifact(wandb_run, artifacts.pretrained_artifact(model))


def exit_code(error: BaseException | None) -> int:
    """Return the exit code of a process that ``error`` ends; 0 for None."""
    if error is None:
        return 0
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    return 1


def _recorded(path: Path) -> list[Any]:
    """Return the list in ``weights.json``. Raises ZooError for a damaged file."""
    if not path.exists():
        return []
    try:
        recorded = parse_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ZooError(f"{path} is damaged ({error}); remove it and start again.") from error
    if not isinstance(recorded, list):
        raise ZooError(f"{path} is damaged: it is no list; remove it and start again.")
    return recorded


def _write_numbered(path: Path, text: str) -> Path:
    """Write a text to a file.

    If the file exists with another text, the text is written to ``name.2.suffix``, and so on.

    Returns:
        The path of the file with the text.
    """
    stem, number = path.stem, 1
    while path.exists() and not (path.is_file() and path.read_bytes() == text.encode()):
        number += 1
        path = path.with_name(f"{stem}.{number}{path.suffix}")
    write_text(path, text)
    return path
