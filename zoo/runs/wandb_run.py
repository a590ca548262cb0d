"""The W&B run of a run: when it is enabled and how it starts.

W&B never asks for input here, and its errors are logged instead of ending the run.
"""

import logging
import netrc
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlparse

from zoo.base.errors import check_choice
from zoo.base.machine.secrets import mask_secrets
from zoo.base.types import Seconds
from zoo.runs.run import Run

if TYPE_CHECKING:
    import wandb

logger = logging.getLogger(__name__)

Mode = Literal["online", "offline", "disabled"]
MODES: tuple[Mode, ...] = ("online", "offline", "disabled")
Checkpoints = Literal["upload", "reference"]
CHECKPOINTS: tuple[Checkpoints, ...] = ("upload", "reference")
STEP_AXIS = "trainer/global_step"
_TRAINING_METRICS = ("train/*", "dev/*", "val/*", "lr*", "epoch")
_HOSTS = ("api.forge.coreweave.com", "api.wandb.ai")  # public servers: since wandb 0.31, and before
_TRUE = ("1", "true", "yes", "on")


@dataclass(frozen=True, kw_only=True, slots=True)
class WandbSettings:
    """W&B settings of the configuration.

    Attributes:
        project: W&B project.
        entity: user or team; None: the default of the account.
        mode: ``online``, ``offline`` or ``disabled``; None: the environment variable WANDB_MODE,
            and without it ``online`` if there is an API key, else ``offline``.
        tags: tags of the W&B run, before those of its systems and overrides.
        init_timeout: seconds to wait for the server before the run continues offline.
        finish_timeout: seconds to wait at the end of the run for the upload of its data. What is
            not uploaded then stays in the run folder.
        checkpoints: whether the weights of a training are uploaded, or only their paths and
            checksums (``reference``); None: ``reference`` for a run of a group, such as the jobs
            of a sweep or a multirun, else ``upload``.

    Raises:
        ZooError: ``mode`` or ``checkpoints`` is unknown.
    """

    project: str = "simulzoo"
    entity: str | None = None
    mode: Mode | None = None
    tags: Sequence[str] = ()
    init_timeout: Seconds = 30.0
    finish_timeout: Seconds = 600.0
    checkpoints: Checkpoints | None = None

    def __post_init__(self) -> None:
        if self.mode is not None:
            check_choice("W&B mode", self.mode, MODES)
        if self.checkpoints is not None:
            check_choice("logger.checkpoints", self.checkpoints, CHECKPOINTS)

    def by_reference(self, run: Run) -> bool:
        """Return whether the checkpoints of a run are logged as paths and checksums."""
        if self.checkpoints is None:
            return run.group is not None
        return self.checkpoints == "reference"


class WandbRun:
    """A started W&B run whose errors are logged and never raised.

    The first error is a warning. Later ones, which often have the same cause, are logged on the
    level DEBUG.

    Args:
        run: the W&B run.
    """

    def __init__(self, run: "wandb.Run") -> None:
        self.project = str(run.project)
        self.offline = bool(run.offline)
        self.run = run
        self._failed = False

    def do(self, action: Callable[["wandb.Run"], object]) -> None:
        """Call ``action`` with the W&B run."""
        try:
            action(self.run)
        except Exception as error:
            level = logging.DEBUG if self._failed else logging.WARNING
            logger.log(level, "W&B failed, the run goes on without it: %s", _reason(error))
            self._failed = True

    def finish(self, exit_code: int) -> None:
        """Finish the W&B run.

        Args:
            exit_code: exit code of the process.
        """

        def action(run: "wandb.Run") -> None:
            folder = Path(run.dir).parent
            try:
                run.finish(exit_code=exit_code)
            except TimeoutError as error:
                raise TimeoutError(
                    f"not all data was uploaded in time; upload it later with: wandb sync {folder}"
                ) from error

        self.do(action)


def resolve_mode(setting: Mode | None, environment: Mapping[str, str] = os.environ) -> Mode:
    """Return the mode in which W&B starts.

    Args:
        setting: the configured mode; it takes precedence over the environment.
        environment: environment variables.

    Returns:
        The mode; ``offline`` instead of ``online`` if there is no API key.
    """
    if setting is None and environment.get("WANDB_DISABLED", "").lower() in _TRUE:
        return "disabled"
    mode: str = setting or environment.get("WANDB_MODE", "").lower()
    if mode in ("offline", "dryrun"):
        return "offline"
    if mode == "disabled":
        return "disabled"
    return "online" if has_key(environment) else "offline"


def has_key(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether W&B can find an API key in the environment or in a netrc file."""
    if environment.get("WANDB_API_KEY") or environment.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True

    configured = urlparse(environment.get("WANDB_BASE_URL", "")).netloc
    hosts = (configured,) if configured else _HOSTS
    for path in (environment.get("NETRC", "~/.netrc"), "~/_netrc"):
        try:
            logins = netrc.netrc(os.path.expanduser(path)).hosts
        except (OSError, netrc.NetrcParseError):
            continue
        if any(host in logins for host in hosts):
            return True
    return False


def start(
    run: Run, settings: WandbSettings, config: Mapping[str, Any], tags: Sequence[str] = ()
) -> WandbRun | None:
    """Start or continue the W&B run.

    If W&B cannot start online, it starts offline. If it cannot start offline either, the run
    continues without W&B. Each case is logged as one warning.

    Args:
        run: the run; its id is the W&B run's id.
        settings: W&B settings.
        config: the configuration to log.
        tags: tags of the W&B run, after those of ``settings``.

    Returns:
        None if W&B is disabled or fails, or if this is not the main process.
    """
    mode = resolve_mode(settings.mode)
    if not run.main or mode == "disabled":
        return None

    problem = ""
    if mode == "offline" and settings.mode == "online":
        problem = "no W&B API key was found"
    if mode == "online":
        try:
            return _init(run, settings, config, tags, "online")
        except Exception as error:  # wandb's own errors, and any error of its HTTP library
            problem = _reason(error)
            _stop_service()

    if problem:
        logger.warning("W&B continues offline: %s.", problem)
    try:
        return _init(run, settings, config, tags, "offline")
    except Exception as error:
        logger.warning("W&B is disabled, metrics.csv is still written: %s.", _reason(error))
        return None


def _reason(error: Exception) -> str:
    """Return the first line of an error's message without its full stop, or the error's type."""
    lines = mask_secrets(str(error)).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def _init(
    run: Run,
    settings: WandbSettings,
    config: Mapping[str, Any],
    tags: Sequence[str],
    mode: Mode,
) -> WandbRun:
    """Start the W&B run in a mode and define the axes of its metrics."""
    import wandb

    wandb_run = wandb.init(
        project=settings.project,
        entity=settings.entity,
        dir=str(run.folder),
        id=run.id,
        name=run.name,
        group=run.group,
        job_type=run.kind,
        tags=list(dict.fromkeys([*settings.tags, *tags])),
        config=dict(config),
        resume="allow",
        mode=mode,
        reinit="finish_previous",
        settings=wandb.Settings(
            init_timeout=settings.init_timeout,
            finish_timeout=settings.finish_timeout,
            finish_timeout_raises=True,
            silent=True,
            console="off",
            symlink=False,
        ),
    )
    wandb_run.define_metric(STEP_AXIS)
    for pattern in _TRAINING_METRICS:
        wandb_run.define_metric(pattern, step_metric=STEP_AXIS)
    return WandbRun(wandb_run)


def _stop_service() -> None:
    """Stop W&B's background service, which keeps the id of a run that failed to start."""
    import wandb

    wandb.teardown()
