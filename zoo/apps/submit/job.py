"""Makes a submission to the simultaneous track of IWSLT: ``python -m zoo submit``.

The system streams the development talks at its latency settings, as ``evaluate.py`` does. For each
latency regime that a setting reaches, the best setting becomes a speech processor of simulstream,
with the log of its development talks. A Dockerfile serves the processors.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from zoo.apps.submit.content import (
    Submission,
    folders_to_copy,
    pinned_packages,
    write_submission,
)
from zoo.base.disk.files import atomic_folder, check_can_be_written
from zoo.base.disk.run_folder import RESULTS
from zoo.base.errors import ZooError, check_name
from zoo.base.machine.commands import run_script
from zoo.base.machine.hints import program
from zoo.base.machine.launch import is_main_process
from zoo.config import Config, build, choices, compose, entry_point, plain, run_composed
from zoo.config.knob import knob_key
from zoo.config.writing import override_key
from zoo.evaluation.talks import has_references
from zoo.runs.rows.regimes import DEVELOPMENT, LATENCY, LIMITS
from zoo.runs.rows.row import Row, read_rows
from zoo.runs.weights import weights_of

FOLDER = "folder"  # key of the command alone
# How development talks are scored where the command line says nothing else.
DEFAULTS = (
    "evaluation.split=dev",
    "evaluation.upper_bound=false",
    "evaluation.oracle_k=[]",
    "evaluation.resegmentation=soft",
    "evaluation.rules=omnisteval",
    "logger=csv",
)
# Parts of a configuration that a processor does not have.
EVALUATION = (
    *("data", "evaluation", "metric", "recogniser", "logger", "trainer", "launcher", "hydra"),
    *("threads", "device", "resume", "optimized_metric", "seed"),
)
OWN_KEYS = ("resume", "smoke", "optimized_metric", "hparams_search")
RANKING = ("XCOMET_XL", "BLEU")  # the first score that all rows have selects the best setting


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the submission that the command line describes.

    Args:
        arguments: command line without the program's name; None: ``sys.argv``.
    """
    parser = argparse.ArgumentParser(prog=program("submit"), description=__doc__)
    parser.add_argument(
        "words",
        nargs="+",
        metavar="KEY=VALUE",
        help="folder=OUT, the new folder of the submission, and overrides of evaluate.py, such as "
        "system=streamatt and those of data=iwslt",
    )
    given = parser.parse_args(arguments).words
    overrides = [word for word in given if override_key(word) != FOLDER]
    typed = set(map(override_key, overrides))
    overrides = [item for item in DEFAULTS if override_key(item) not in typed] + overrides
    run = Path("outputs") / "submit" / f"{datetime.now():%Y-%m-%d_%H-%M-%S}"

    def check(cfg: Config) -> None:
        check_keys(overrides)
        check_folder(new_folder(given), run)
        check_system(cfg)
        check_content(weights_of(plain(cfg)))
        check_development(cfg)

    run_composed(overrides, check)
    sys.argv[1:] = [*overrides, f"hydra.run.dir={run}"]
    entry_point("evaluate", "zoo.apps.evaluate.job:evaluate")
    if is_main_process():
        folder = new_folder(given)
        run_script(lambda: submit(run, folder, overrides), folder.parent)


def check_keys(overrides: Sequence[str]) -> None:
    """Raise ZooError for an override of what the command sets itself."""
    for item in overrides:
        key = override_key(item)
        if key.partition(".")[0] == "hydra" or key in OWN_KEYS:
            raise ZooError(f"submit evaluates the system in a new run folder; leave out {item}.")


def check_content(weights: Mapping[str, str]) -> None:
    """Raise ZooError if the submission could not be written after the evaluation.

    Args:
        weights: hub ids and folders of the weights, by configuration key.
    """
    folders_to_copy(Path(name) for name in weights.values() if Path(name).is_dir())
    pinned_packages()


def new_folder(given: Sequence[str]) -> Path:
    """Return the folder of the submission. Raises ZooError unless it is named once."""
    named = [word.partition("=")[2] for word in given if override_key(word) == FOLDER]
    if len(named) != 1 or not named[0].strip():
        raise ZooError("Name the new folder of the submission once: folder=submission.")
    return Path(named[0])


def check_folder(folder: Path, run: Path) -> None:
    """Check that a folder is new or empty and can be made, in an existing folder.

    Args:
        folder: folder of the submission.
        run: folder of the run that evaluates the system, which is not in the submission.

    Raises:
        ZooError: the folder cannot be that of a submission.
    """
    check_name("folder", folder.absolute().name)
    if folder.is_symlink():
        raise ZooError(f"folder={folder} is a link; name a new folder.")
    check_can_be_written(folder, "folder")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ZooError(f"folder={folder} is not empty; name a new folder.")
    if not folder.parent.is_dir():
        raise ZooError(f"folder={folder} cannot be made: there is no folder {folder.parent}.")
    if run.resolve().is_relative_to(folder.resolve()):
        raise ZooError(f"folder={folder} would contain the run folder {run}; name another folder.")


def check_system(cfg: Config) -> None:
    """Raise ZooError unless a configuration has one streaming system of the zoo that writes text.

    Args:
        cfg: configuration of the evaluation.
    """
    from zoo.systems.base import StreamingSystem  # imports torch

    if plain(cfg, resolve=False)["compare"] is not None:
        raise ZooError("A submission has one system; leave out compare and experiments with it.")
    system = build(cfg.system)
    if not isinstance(system, StreamingSystem):
        raise ZooError(
            f"{system.name!r} is no streaming system of the zoo, so no processor can load it; "
            "choose another system=..., such as streamatt."
        )
    if system.emits_speech:
        raise ZooError(
            f"{system.name!r} emits speech, and the track takes text; choose synthesizer=none."
        )


def check_development(cfg: Config) -> None:
    """Raise ZooError unless the configuration names development talks with references.

    Args:
        cfg: configuration of the evaluation.
    """
    settings, corpus = build(cfg.evaluation), build(cfg.data)
    if not settings.split.startswith(DEVELOPMENT):
        raise ZooError(
            f"evaluation.split={settings.split} is no development set, which sets the regime of a "
            f"submission; name a split that begins with {DEVELOPMENT!r}."
        )
    if settings.development is not None or settings.view != "talks":
        raise ZooError(
            "A submission streams the whole talks of one development set, which evaluation.split "
            "names; leave out evaluation.development and evaluation.view."
        )
    if not has_references(corpus.talks(settings.split, limit=settings.talks)):
        raise ZooError(
            f"The development talks of data={corpus.name} have no references, without which there "
            "is no LongYAAL and so no regime."
        )


def submit(run: Path, folder: Path, overrides: Sequence[str]) -> None:
    """Write the submission of a finished evaluation on development talks.

    Args:
        run: run folder of the evaluation.
        folder: folder of the submission.
        overrides: overrides of the evaluation.

    Raises:
        ZooError: no latency setting is in a regime, or a file cannot be read.
    """
    rows = [row for row in read_rows(run / RESULTS) if row.kind == "system"]
    best = best_settings(rows)
    cfg = compose("evaluate", overrides)
    kept = [item for item in overrides if _is_of_system(item)]
    submission = Submission(
        run=run,
        rows=best,
        system=str(choices(kept)["system"]),
        overrides=[item for item in kept if override_key(item) != "system"],
        knob=knob_key(cfg),
        weights=weights_of(plain(cfg)),
    )
    check_folder(folder, run)
    with atomic_folder(folder) as new:
        write_submission(submission, new)
    for regime, row in best.items():
        print(f"{regime}: {row.label}, {LATENCY} {row.scores[LATENCY]:.2f} s on {row.split}")
    print(f"submission: {folder}")


def best_settings(rows: Sequence[Row]) -> dict[str, Row]:
    """Return the best row of each regime, by the first score of ``RANKING`` that all rows have.

    Raises ZooError if no row is in a regime.
    """
    inside = [row for row in rows if row.settings.regime in LIMITS]
    if not inside:
        latencies = ", ".join(
            f"{row.knob_label or row.system} {row.scores.get(LATENCY) or float('nan'):.2f} s"
            for row in rows
        )
        raise ZooError(
            f"No setting is in a regime, which end at {max(LIMITS.values()):g} s of {LATENCY} on "
            f"development talks ({latencies}); choose settings of a lower latency with "
            "evaluation.knob_values=[...]."
        )
    score = next(
        name for name in RANKING if all(row.scores.get(name) is not None for row in inside)
    )
    return {
        regime: max(found, key=lambda row: row.scores[score] or 0.0)
        for regime in LIMITS
        if (found := [row for row in inside if row.settings.regime == regime])
    }


def _is_of_system(override: str) -> bool:
    """Return whether an override describes the system and not its evaluation."""
    return override_key(override).partition(".")[0] not in EVALUATION
