"""The W&B run behind a run: whether it is on, how it starts, and Lightning's way to it. Knows no score by name.

W&B is a convenience here: it never asks for anything, and what goes wrong with it costs a warning, not the run.
"""

import netrc
import os
import warnings
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlparse

from lightning.pytorch.loggers.logger import Logger
from lightning.pytorch.utilities import rank_zero_only
from torch import Tensor

from zoo.errors import unknown
from zoo.tracking.run import Run
from zoo.types import Seconds

if TYPE_CHECKING:
    import wandb

Mode = Literal["online", "offline", "disabled"]
MODES: tuple[Mode, ...] = ("online", "offline", "disabled")
STEP_AXIS = "trainer/global_step"
_TRAINING_METRICS = ("train/*", "dev/*", "val/*", "lr*", "epoch")
_HOSTS = (
    "api.forge.coreweave.com",
    "api.wandb.ai",
)  # the public server, and the name it had before wandb 0.31
_TRUE = ("1", "true", "yes", "on")


@dataclass(frozen=True, kw_only=True, slots=True)
class WandbSettings:
    """What a person may set about W&B.

    mode: None leaves it to WANDB_MODE, and without that to whether there is an API key: online with, offline without.
    init_timeout: how long to try to reach the server before the run goes on offline.
    """

    project: str = "simulzoo"
    entity: str | None = None
    mode: Mode | None = None
    tags: Sequence[str] = ()
    init_timeout: Seconds = 30.0

    def __post_init__(self) -> None:
        if self.mode is not None and self.mode not in MODES:
            raise unknown("W&B mode", self.mode, MODES)


def resolve_mode(setting: Mode | None, environment: Mapping[str, str] = os.environ) -> Mode:
    """The mode to start in: the setting, else WANDB_MODE, else by the key. Without a key, "online" means offline."""
    wanted: str = setting or environment.get("WANDB_MODE", "").lower()
    if not setting and environment.get("WANDB_DISABLED", "").lower() in _TRUE:
        return "disabled"
    if wanted in ("offline", "dryrun"):
        return "offline"
    if wanted == "disabled":
        return "disabled"
    return "online" if has_key(environment) else "offline"


def has_key(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether W&B would find an API key without asking: in the environment, or in netrc for the server's host."""
    if environment.get("WANDB_API_KEY") or environment.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    own = urlparse(environment.get("WANDB_BASE_URL", "")).netloc
    for path in (
        Path(environment.get("NETRC", "~/.netrc")).expanduser(),
        Path("~/_netrc").expanduser(),
    ):
        try:
            known = netrc.netrc(str(path)).hosts
        except (OSError, netrc.NetrcParseError):
            continue
        if any(host in known for host in ((own,) if own else _HOSTS)):
            return True
    return False


def start(run: Run, settings: WandbSettings, config: Mapping[str, Any]) -> "wandb.Run | None":
    """Start, or continue, the W&B run of ``run``; None where W&B is disabled, absent, or this is not the main process.

    What W&B cannot do online it does offline, and else not at all, with one warning.
    """
    mode = resolve_mode(settings.mode)
    if not run.main or mode == "disabled":
        return None
    problem = ""
    if mode == "offline" and settings.mode == "online":
        problem = "no W&B API key was found"
    if mode == "online":
        try:
            return _init(run, settings, config, "online")
        except (
            Exception
        ) as error:  # wandb raises its own errors, but also whatever its transport does
            problem = str(error).splitlines()[0] if str(error) else type(error).__name__
            _reset()
    if problem:
        warnings.warn(f"W&B goes on offline: {problem}.", stacklevel=2)
    try:
        return _init(run, settings, config, "offline")
    except Exception as error:
        warnings.warn(f"W&B is off, metrics.csv is not: {error}.", stacklevel=2)
        return None


def _init(run: Run, settings: WandbSettings, config: Mapping[str, Any], mode: Mode) -> "wandb.Run":
    import wandb

    started = wandb.init(
        project=settings.project,
        entity=settings.entity,
        dir=str(run.folder),
        id=run.id,
        name=run.name,
        group=run.group,
        job_type=run.kind,
        tags=list(settings.tags),
        config=dict(config),
        resume="allow",
        mode=mode,
        reinit="finish_previous",
        settings=wandb.Settings(
            init_timeout=settings.init_timeout, silent=True, console="off", symlink=False
        ),
    )
    started.define_metric(STEP_AXIS)
    for pattern in _TRAINING_METRICS:
        started.define_metric(pattern, step_metric=STEP_AXIS)
    return started


def _reset() -> None:
    """Stop W&B's service, which holds on to the id of a run that did not start."""
    import wandb

    wandb.teardown()


class WandbLogger(Logger):
    """Lightning's door to a started W&B run. Metrics carry their own axis, so resumed steps never run backwards."""

    def __init__(self, run: Run, experiment: "wandb.Run") -> None:
        super().__init__()
        self._run = run
        self._experiment = experiment

    @property
    def name(self) -> str:
        """The W&B project."""
        return str(self._experiment.project)

    @property
    def version(self) -> str:
        """The run id."""
        return self._run.id

    @property
    def save_dir(self) -> str:
        """The run folder."""
        return str(self._run.folder)

    @property
    def experiment(self) -> "wandb.Run":
        """The W&B run itself."""
        return self._experiment

    @rank_zero_only
    def log_hyperparams(
        self, params: dict[str, Any] | Namespace, *args: Any, **kwargs: Any
    ) -> None:
        """Nothing: the run was started with the whole resolved configuration."""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float | Tensor], step: int | None = None) -> None:
        """Log on the axis ``trainer/global_step``."""
        row = {
            name: value.item() if isinstance(value, Tensor) else value
            for name, value in metrics.items()
        }
        self._experiment.log(row if step is None else {**row, STEP_AXIS: step})
