"""The script of docs/lightning.md runs on fewer talks, which its two ranks share."""

import json
import re
from pathlib import Path

from tests.fixtures import processes
from zoo.data.minitalks import corpus

ROOT = Path(__file__).resolve().parents[2]


def test_the_script_tests_a_system_on_two_ranks(tmp_path: Path) -> None:
    talks = [talk.name for talk in corpus.build("tst", talks=2)]
    page = (ROOT / "docs" / "lightning.md").read_text()
    script = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)[0]
    assert 'TalksDataModule("minitalks")' in script
    path = tmp_path / "script.py"
    path.write_text(script.replace('("minitalks")', '("minitalks", talks=2)'))

    environment = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = processes.run(path, folder=tmp_path, environment=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    scores = dict(re.findall(r"tst/en-de/(\w+)\s.*?([\d.]+)", done.stdout))
    assert float(scores["BLEU"]) > 50
    logs = sorted(tmp_path.rglob("streams*.jsonl"))
    assert [log.name for log in logs] == ["streams.1.jsonl", "streams.jsonl"]
    streamed = [json.loads(line)["talk"] for log in logs for line in log.read_text().splitlines()]
    assert sorted(streamed) == sorted(talks)
