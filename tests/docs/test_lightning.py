"""The scripts of docs/lightning.md run on fewer talks and steps."""

import json
import re
from pathlib import Path

from tests.fixtures import processes
from zoo.data.minitalks import corpus

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "lightning.md").read_text(encoding="utf-8")
SCRIPTS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
SMALLER = {'("minitalks")': '("minitalks", talks=2)', "max_steps=100": "max_steps=1"}


def run(script: str, folder: Path) -> str:
    """What a script prints that runs in a folder on less data."""
    for whole, part in SMALLER.items():
        script = script.replace(whole, part)
    path = folder / "script.py"
    path.write_text(script)
    environment = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = processes.run(path, folder=folder, environment=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return str(done.stdout)


def test_the_script_tests_a_system_on_two_ranks(tmp_path: Path) -> None:
    talks = [talk.name for talk in corpus.build("tst", talks=2)]
    printed = run(SCRIPTS[0], tmp_path)
    scores = dict(re.findall(r"tst/en-de/(\w+)\s.*?([\d.]+)", printed))
    assert float(scores["BLEU"]) > 50
    logs = sorted(tmp_path.rglob("streams*.jsonl"))
    assert [log.name for log in logs] == ["streams.1.jsonl", "streams.jsonl"]
    streamed = [json.loads(line)["talk"] for log in logs for line in log.read_text().splitlines()]
    assert sorted(streamed) == sorted(talks)


def test_the_script_predicts_one_stream_per_talk(tmp_path: Path) -> None:
    talks = [talk.name for talk in corpus.build("tst", talks=2)]
    printed = run(SCRIPTS[1], tmp_path).splitlines()
    texts = dict(line.split(" ", 1) for line in printed if line.startswith(tuple(talks)))
    assert sorted(texts) == sorted(talks)
    assert all(len(text.split()) > 20 for text in texts.values())


def test_the_script_trains_and_saves(tmp_path: Path) -> None:
    corpus.build("train", talks=2)
    assert 'fit(system, zoo.TalksDataModule("minitalks"))' in SCRIPTS[2]
    run(SCRIPTS[2], tmp_path)
    assert list((tmp_path / "fine_tuned").glob("*.safetensors"))
    assert len(SCRIPTS) == 3
