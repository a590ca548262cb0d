"""The blocks of docs/python.md and the cells of the notebooks run as they stand."""

import json
import re
from pathlib import Path

import pytest

from tests.fixtures import processes
from zoo.base.audio import files as audio
from zoo.data.minitalks import corpus

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "python.md").read_text(encoding="utf-8")
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


def printed(blocks: list[str], folder: Path) -> str:
    """What blocks of code print, one after the other, in a new process."""
    path = folder / "script.py"
    path.write_text("\n\n".join(blocks), encoding="utf-8")
    environment = {"PYTHONPATH": str(DOCS.parent), "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    done = processes.run(path, folder=folder, environment=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return str(done.stdout)


def test_the_blocks_of_the_page(tmp_path: Path) -> None:
    [talk] = corpus.build("tst", talks=1)
    audio.write(tmp_path / "talk.wav", audio.load(talk.file, duration=6.0))
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    text = printed(blocks, tmp_path)
    assert len(blocks) == 3
    assert text.count("Julia hat das Geld ausgegeben.") == 2
    assert re.search(r"^[\d.]+ s of audio, at [\d.]+ s: Julia$", text, flags=re.MULTILINE)
    assert "StreamLAAL" in text
    assert "hypothesis" in text


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path: Path, tmp_path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] for cell in cells if cell["cell_type"] == "code")
    last = code[-1].splitlines()
    shown = [*code[:-1], "\n".join([*last[:-1], f"print({last[-1]})"])]
    text = printed(shown, tmp_path)
    if path.stem == "compare_two_systems":
        assert (tmp_path / "curves.png").stat().st_size > 5000
    else:
        assert "hold back" in text
    assert len(list(tmp_path.rglob("results.json"))) == 2


def test_both_notebooks_are_there() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["add_a_policy", "compare_two_systems"]
