"""What scores and reports imports no network library, which takes seconds."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEAVY = {"torch", "lightning", "torchmetrics", "transformers", "peft", "wandb", "soundfile"}
STREAM = {
    "index": 0,
    "prediction": "Eins zwei.",
    "delays": [1000, 2000],
    "elapsed": [1500, 3000],
    "source": ["talk.wav"],
    "source_length": 2000,
    "reference": "Eins zwei.",
}
# Replays a log, joins the finished run and computes a score, in one process.
SCRIPT = """
import sys
import zoo
from zoo.apps.evaluate import main as evaluate
from zoo.metrics.soft_segmenter import soft_segment
from zoo.apps.report import main

evaluate()
main(["run", "--output", "joined"])
print(*sorted(sys.modules))
"""


def test_replay_scores_and_reports_import_no_network_library(tmp_path: Path) -> None:
    (tmp_path / "instances.log").write_text(json.dumps(STREAM) + "\n")
    replay = ("system=replay", "system.log=instances.log", "data=recorded", "hydra.run.dir=run")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *replay, "logger=csv", "metric=[ter]"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    *shown, modules = done.stdout.splitlines()
    assert any("100.0" in line for line in shown), shown  # the table
    assert HEAVY & set(modules.split()) == set()
    assert (tmp_path / "joined" / "report.html").is_file()
