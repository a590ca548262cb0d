"""Creates a W&B report of all evaluations of a project: ``python -m zoo wandb-report``.

The report has the joint curves, the tables of results and hypotheses, and the pages and target
speech of the runs (``docs/tracking.md``). It needs ``pip install 'simulzoo[wandb-report]'``.
"""

import argparse
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.base.disk.files import write_text
from zoo.base.errors import ZooError
from zoo.base.machine.commands import named_path, run_script
from zoo.base.machine.hints import program
from zoo.base.machine.secrets import mask_secrets
from zoo.runs.rows.names import COMET, COMPUTATION_AWARE, main_score
from zoo.runs.wandb_run import WandbSettings

if TYPE_CHECKING:
    import wandb_workspaces.reports.v2 as reports

LIBRARY = "wandb_workspaces"
TITLE = "Simultaneous speech translation"
QUALITY, LATENCY = main_score("quality"), main_score("latency")
CURVES = {
    QUALITY: LATENCY,
    COMET.name: LATENCY,
    main_score("quality", "speech"): main_score("latency", "speech"),
}
# columns of the table of runs
SHOWN = (QUALITY, COMET.name, LATENCY, LATENCY + COMPUTATION_AWARE, "RTF")


def main(arguments: Sequence[str] | None = None) -> None:
    """Create the report, or write its JSON.

    Args:
        arguments: command line without the program's name; None: ``sys.argv``.
    """
    parser = argparse.ArgumentParser(prog=program("wandb-report"), description=__doc__)
    parser.add_argument("--project", default=WandbSettings().project, help="W&B project")
    parser.add_argument("--entity", help="user or team; default: that of the account")
    parser.add_argument("--test-set", default="tst/en-de", help="split and direction of the scores")
    parser.add_argument("--group", help="only the runs of a group, such as a sweep or a multirun")
    parser.add_argument("--json", type=named_path, help="write the layout to this file; no server")
    given = parser.parse_args(arguments)

    def make() -> None:
        if given.json is not None:
            spec = layout(given.project, "", test_set=given.test_set, group=given.group)
            _write(given.json, json.dumps(content(spec), indent=1) + "\n")
            print(f"layout: {given.json}")
        else:
            print(f"report: {create(given.project, given.entity, given.test_set, given.group)}")

    run_script(make)


def _write(path: Path, text: str) -> None:
    """Write the JSON of a report. Raises ZooError if the file cannot be written."""
    if path.is_dir() or not path.parent.is_dir():
        raise ZooError(f"--json is {path}; name a file in an existing folder.")
    try:
        write_text(path, text)
    except OSError as error:
        raise ZooError(f"--json is {path}, which cannot be written: {error.strerror}.") from error


def create(project: str, entity: str | None, test_set: str, group: str | None) -> str:
    """Create the report on the server and return its address.

    Args:
        project: W&B project.
        entity: user or team; None: that of the account.
        test_set: split and direction, such as ``tst/en-de``.
        group: group of the runs; None: all runs.

    Raises:
        ZooError: the library is missing, or the server refuses or cannot be reached.
    """
    require_library()
    import wandb

    try:
        owner = entity or wandb.Api().default_entity
        report = layout(project, str(owner), test_set=test_set, group=group)
        report.save()
    except Exception as error:  # wandb's own errors, and any error of its HTTP library
        lines = mask_secrets(str(error)).strip().splitlines()
        raise ZooError(
            f"W&B did not create the report: {lines[0] if lines else type(error).__name__}"
        ) from error
    return str(report.url)


def require_library() -> None:
    """Raise ZooError if the library of reports is not installed."""
    if importlib.util.find_spec(LIBRARY) is None:
        raise ZooError(
            "A report on W&B needs wandb-workspaces; install it with: "
            "pip install 'simulzoo[wandb-report]'."
        )


def layout(
    project: str, entity: str, *, test_set: str, group: str | None = None
) -> "reports.Report":
    """Return the report, which is not saved.

    Args:
        project: W&B project.
        entity: user or team. An empty text leaves the project of the runs open, so that no server
            is asked for it.
        test_set: split and direction, such as ``tst/en-de``.
        group: group of the runs; None: all runs.

    Raises:
        ZooError: the library is not installed.
    """
    require_library()
    import wandb_workspaces.reports.v2 as wr

    pinned = [f"summary:{test_set}/{name}" for name in ("best", *SHOWN)]
    conditions = ["JobType = 'evaluate'", *([f"Group = '{group}'"] if group else [])]

    def grid(*panels: Any) -> Any:
        runs = wr.Runset(
            entity=entity,
            project=project if entity else "",
            name="evaluations",
            filters=" and ".join(conditions),
            pinned_columns=pinned,
        )
        return wr.PanelGrid(runsets=[runs], panels=list(panels))

    joint = [joint_chart(quality, latency) for quality, latency in CURVES.items()]
    over_latency = wr.LinePlot(
        title=f"{QUALITY} over {LATENCY} of each run",
        x=f"{test_set}/{LATENCY}",
        y=[f"{test_set}/{QUALITY}"],
    )
    return wr.Report(
        project=project,
        entity=entity,
        title=TITLE,
        description=f"All evaluations, scores of {test_set}.",
        width="fluid",
        blocks=[
            wr.H1("Quality over latency"),
            grid(*joint, over_latency),
            wr.H1("Results"),
            grid(wr.WeavePanelSummaryTable(table_name="results")),
            wr.H1("Hypotheses"),
            grid(wr.WeavePanelSummaryTable(table_name="hypotheses")),
            wr.H1("Pages and target speech"),
            grid(wr.MediaBrowser(media_keys=["report", "speech", "plot"])),
        ],
    )


def joint_chart(quality: str, latency: str) -> Any:
    """Return the panel of a chart that ``zoo.runs.media.curves`` has logged in each run.

    Args:
        quality: name of the vertical axis.
        latency: name of the horizontal axis.
    """
    import wandb_workspaces.reports.v2 as wr

    return wr.CustomChart(
        query={"summaryTable": {"tableKey": f"curves/{quality}_table"}},
        chart_name="wandb/lineseries/v0",
        chart_fields={"step": "step", "lineKey": "lineKey", "lineVal": "lineVal"},
        chart_strings={"title": f"{quality} over {latency}", "xname": latency},
    )


def content(report: "reports.Report") -> Any:
    """Return the layout of a report as JSON values, as the server receives it."""
    spec = report._to_model().spec
    return json.loads(spec.model_dump_json(by_alias=True, exclude_none=True))


if __name__ == "__main__":
    main()
