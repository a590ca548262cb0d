"""The files of a submission."""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement

from zoo.apps.submit.dockerfile import REQUIREMENTS, SOURCE, WEIGHTS, dockerfile
from zoo.base.disk.files import write_text
from zoo.base.disk.parsing import read_json
from zoo.base.errors import ZooError
from zoo.base.version import __version__
from zoo.config import CONF
from zoo.formats.simulstream import SCORING
from zoo.report.markdown import markdown_table
from zoo.report.table import cell
from zoo.runs.rows.names import find_entry
from zoo.runs.rows.row import Row, log_in

SHARED = "shared.json"  # in a checkpoint: folders beside it that have some of its weights
SIMULSTREAM = "simulstream==1.0.0"
DISTRIBUTION = "simulzoo"
LOGS = "logs"
SCORES = ("LongYAAL", "StreamLAAL", "BLEU", "chrF", "XCOMET_XL")


@dataclass(frozen=True, slots=True)
class Submission:
    """What a submission is made of.

    Attributes:
        run: run folder of the evaluation on development talks.
        rows: row of the setting that is submitted, by regime.
        system: name of the system.
        overrides: overrides of the system.
        knob: key of the latency setting; None: the system has none.
        weights: hub ids and folders of the weights, by configuration key.
    """

    run: Path
    rows: Mapping[str, Row]
    system: str
    overrides: Sequence[str]
    knob: str | None
    weights: Mapping[str, str]

    @property
    def local_weights(self) -> dict[str, Path]:
        """The folders of weights by configuration key; other weights are on a hub."""
        return {key: Path(name) for key, name in self.weights.items() if Path(name).is_dir()}

    @property
    def hub_weights(self) -> list[str]:
        """The hub ids of the weights."""
        return [name for key, name in self.weights.items() if key not in self.local_weights]


def write_submission(submission: Submission, folder: Path) -> None:
    """Write all files of a submission into an empty folder.

    Raises ZooError for a folder of weights that cannot be copied.
    """
    copies = copy_weights(submission, folder / WEIGHTS)
    for regime, row in submission.rows.items():
        write_text(folder / f"{regime}.yaml", yaml.safe_dump(processor(submission, row, copies)))
        log = log_in(submission.run, row).with_name("simulstream.jsonl")
        (folder / LOGS).mkdir(exist_ok=True)
        shutil.copyfile(log, folder / LOGS / f"{row.split}_{regime}.jsonl")
    write_text(folder / LOGS / "simulstream.yaml", yaml.safe_dump(SCORING))
    copy_source(folder / SOURCE)
    write_text(folder / REQUIREMENTS, "\n".join(pinned_packages()) + "\n")
    text = dockerfile(list(submission.rows), submission.hub_weights, has_weights=bool(copies))
    write_text(folder / "Dockerfile", text)
    write_text(folder / "README.md", card(submission))


def processor(submission: Submission, row: Row, copies: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration of a processor of simulstream.

    Args:
        submission: the submission.
        row: row of the latency setting.
        copies: folders of weights in the submission, by configuration key.
    """
    replaced = {f"{key}={name}" for key, name in copies.items()}
    setting = [] if submission.knob is None or row.knob is None else [_setting(submission, row)]
    own = {item.partition("=")[0] for item in (*replaced, *setting)}
    kept = [item for item in submission.overrides if item.partition("=")[0] not in own]
    return {
        "type": "zoo.extras.interop.simulstream.SystemProcessor",
        "system": submission.system,
        "overrides": [*kept, *sorted(replaced), *setting],
        "device": "auto",
        **SCORING,
    }


def _setting(submission: Submission, row: Row) -> str:
    """Return the latency setting of a row as an override."""
    assert row.knob is not None
    return f"{submission.knob}={row.knob.value:g}"


def copy_weights(submission: Submission, folder: Path) -> dict[str, str]:
    """Copy folders of weights, also those with which they share weights.

    Args:
        submission: the submission.
        folder: folder of the copies.

    Returns:
        The place of each copy in the submission, by configuration key.

    Raises:
        ZooError: two folders have one name.
    """
    sources = {key: path.resolve() for key, path in submission.local_weights.items()}
    for path in folders_to_copy(sources.values()):
        shutil.copytree(path, folder / path.name)
    return {key: f"{folder.name}/{path.name}" for key, path in sources.items()}


def folders_to_copy(sources: Iterable[Path]) -> list[Path]:
    """Return folders of weights and those with which they share weights.

    Raises ZooError if two of them have one name.
    """
    every = {path.resolve() for source in sources for path in (source, *shared_folders(source))}
    names = [path.name for path in every]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ZooError(f"Two folders of weights have the name {twice}; rename one of them.")
    return sorted(every)


def shared_folders(checkpoint: Path) -> list[Path]:
    """Return the folders with which a checkpoint shares weights."""
    path = checkpoint / SHARED
    found = read_json(path) if path.is_file() else {}
    return [(checkpoint / str(place)).resolve() for place in found.values()]


def copy_source(folder: Path) -> None:
    """Copy the package and its configuration, as an installed package has them."""
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    package = Path(__file__).parents[2]
    shutil.copytree(package, folder / package.name, ignore=ignored)
    if not (package / "conf").is_dir():
        shutil.copytree(CONF, folder / package.name / "conf", ignore=ignored)


def pinned_packages() -> list[str]:
    """Return the packages that the zoo needs and simulstream, with the versions in use."""
    try:
        needed = requires(DISTRIBUTION) or []
    except PackageNotFoundError as error:
        raise ZooError(
            f"The packages of a submission are those of the installed package {DISTRIBUTION}, "
            "which is missing: pip install -e ."
        ) from error
    found = [Requirement(text) for text in needed]
    names = [one for one in found if one.marker is None or one.marker.evaluate({"extra": ""})]
    return [*(_pinned(one) for one in names), SIMULSTREAM]


def _pinned(package: Requirement) -> str:
    """Return a package with the version in use, without the name of a build such as ``+cpu``."""
    extras = f"[{','.join(sorted(package.extras))}]" if package.extras else ""
    return f"{package.name}{extras}=={version(package.name).partition('+')[0]}"


def card(submission: Submission) -> str:
    """Return the card: logs with their regime, and how to build and run the image."""
    rows = submission.rows
    first = next(iter(rows.values()))
    columns = [find_entry(name).column() for name in SCORES]
    shown = [one for one in columns if any(row.scores.get(one.score) for row in rows.values())]
    headings = [f"{one.score} (s)" if one.unit == "s" else one.score for one in shown]
    lines = [
        [
            regime,
            row.knob_label or "–",
            f"`{regime}.yaml`",
            f"`{LOGS}/{row.split}_{regime}.jsonl`",
            *(cell(row, column).strip() for column in shown),
        ]
        for regime, row in rows.items()
    ]
    names = ["regime", "setting", "processor", "log of development talks"]
    weights = ", ".join(
        f"`{Path(name).name if Path(name).is_dir() else name}`"
        for name in (dict.fromkeys(submission.weights.values()))
    )
    return CARD.format(
        system=submission.system,
        source=first.source_language,
        target=first.target_language,
        weights=weights or "none",
        corpus=f"{first.data} {first.split}, {first.settings.talks} talks",
        version=__version__,
        table=markdown_table(names, headings, lines),
        regime=next(iter(rows)),
    )


CARD = """# {system}, {source}-{target}

Contact: NAME, EMAIL

Made by SimulZoo {version}; weights: {weights}. LongYAAL on development talks ({corpus}), not
computation-aware, sets the regime: low 0 to 2 s, high 2 to 4 s. The processor of a regime has the
best latency setting in it.

{table}

The logs are simulstream's (`{{"id", "metadata"}}` and a line per chunk); `logs/simulstream.yaml` is
for its scorers. Build and run the image, without and with a GPU:

```sh
docker build -t submission .
docker run --rm -p 8080:8080 submission {regime}.yaml
docker build -t submission --build-arg BASE=nvidia/cuda:12.8.1-base-ubuntu24.04 \\
  --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu128 .
docker run --rm --gpus=all -p 8080:8080 submission {regime}.yaml
```

Then `simulstream_inference` with its HTTP processor (`examples/http_docker` of simulstream) streams
recordings to port 8080. Without Docker, in this folder and an environment with both packages:
`simulstream_inference --speech-processor-config {regime}.yaml --wav-list-file LIST --src-lang
{source} --tgt-lang {target} --metrics-log-file LOG`.
"""
