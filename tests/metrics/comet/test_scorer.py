"""The caller of the COMET environment: protocol, cache and errors, with an imitated environment."""

import hashlib
import json
from pathlib import Path

import pytest

from tests.fixtures.comet_environment import calls, imitation
from zoo.base.errors import ZooError
from zoo.metrics.comet import score
from zoo.metrics.comet.scorer import Comet, Text, environment, score_name

TEXTS = [Text("a b", "x y", "x y"), Text("c d", "x c", "x y"), Text("a b", "x y", "x y")]


@pytest.fixture
def python(tmp_path: Path) -> Path:
    return imitation(tmp_path)


def comet(python: Path, *models: str) -> Comet:
    return Comet.available(models, python=str(python), cache=python.parent / "cache")


def test_scores_of_all_models_come_from_one_process(python: Path) -> None:
    scores = comet(python, "Unbabel/wmt22-comet-da", "folder/kiwi").score(TEXTS)
    assert scores == {"COMET": [1.0, 0.5, 1.0], "COMET_kiwi": [0.0, 0.5, 0.0]}
    assert calls(python) == ["check 2", "score 4"]  # equal texts are scored once


def test_scores_are_kept_by_content_and_model(python: Path) -> None:
    comet(python, "a/first").score(TEXTS)
    comet(python, "a/first").score([*TEXTS, Text("c d", "x c", "another reference")])
    comet(python, "a/second").score(TEXTS)
    scores = [call for call in calls(python) if call.startswith("score")]
    assert scores == ["score 2", "score 1", "score 2"]


def test_a_model_without_reference_keeps_its_score_for_another_reference(python: Path) -> None:
    comet(python, "a/kiwi").score([Text("a b", "a", "one")])
    assert comet(python, "a/kiwi").score([Text("a b", "a", "two")]) == {"COMET_kiwi": [0.5]}
    assert calls(python).count("score 1") == 1


def test_a_stopped_process_keeps_what_it_has_scored(python: Path) -> None:
    texts = [Text("s", "STOP", "r"), Text("s", "r", "r"), Text("s", "t", "r")]
    with pytest.raises(ZooError, match=r"exit code 1: out of memory"):
        comet(python, "a/b").score(texts)
    assert comet(python, "a/b").score(texts[1:]) == {"COMET_b": [1.0, 0.0]}
    assert [call for call in calls(python) if call.startswith("score")] == ["score 3"]


def test_an_unfinished_line_of_the_cache_is_skipped(python: Path) -> None:
    comet(python, "a/b").score(TEXTS)
    (file,) = (python.parent / "cache").iterdir()
    whole = file.read_text()
    file.write_text(whole[: len(whole) - 9])
    assert comet(python, "a/b").score(TEXTS) == {"COMET_b": [1.0, 0.5, 1.0]}


@pytest.mark.parametrize("damage", [bytes(200), b"\x80\xff\n", b""])
def test_damaged_scores_are_computed_again(python: Path, damage: bytes) -> None:
    comet(python, "a/b").score(TEXTS)
    (file,) = (python.parent / "cache").iterdir()
    file.write_bytes(damage)
    assert comet(python, "a/b").score(TEXTS) == {"COMET_b": [1.0, 0.5, 1.0]}
    assert comet(python, "a/b").score(TEXTS) == {"COMET_b": [1.0, 0.5, 1.0]}


def test_a_score_that_is_no_number_is_computed_again(python: Path) -> None:
    comet(python, "a/b").score(TEXTS)
    (file,) = (python.parent / "cache").iterdir()
    file.write_text(file.read_text().replace("0.5", "NaN"))
    assert comet(python, "a/b").score(TEXTS) == {"COMET_b": [1.0, 0.5, 1.0]}


def test_progress_receives_every_scored_text(python: Path) -> None:
    seen: list[float] = []

    def progress(items, total):  # type: ignore[no-untyped-def]
        seen.append(total)
        for item in items:
            seen.append(item["score"])
            yield item

    comet(python, "a/b").score(TEXTS, progress)
    assert seen == [2, 0.5, 1.0]


def test_a_missing_model_is_named(python: Path) -> None:
    with pytest.raises(ZooError, match=r"COMET model x/missing: it has no hparams\.yaml"):
        comet(python, "a/b", "x/missing")


def test_a_missing_environment_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo.metrics.comet.scorer.REPOSITORY", tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ZooError, match=r"run `make comet`"):
        environment(None)
    with pytest.raises(ZooError, match=r"there is no file nowhere/python"):
        environment("nowhere/python")


def test_a_python_that_does_not_start_or_prints_no_json_is_named(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho hello\n")
    with pytest.raises(ZooError, match="Cannot start"):
        comet(python, "a/b")
    python.chmod(0o755)
    with pytest.raises(ZooError, match="no JSON"):
        comet(python, "a/b")


def test_a_process_that_leaves_texts_out_is_an_error(python: Path) -> None:
    one = comet(python, "a/b")
    python.write_text("#!/bin/sh\n")
    with pytest.raises(ZooError, match="not scored all of 2 texts"):
        one.score(TEXTS)


def test_names_of_scores(tmp_path: Path) -> None:
    (tmp_path / "my-metric@2").mkdir()
    assert score_name("Unbabel/XCOMET-XL") == "XCOMET_XL"
    assert score_name("owner/some-comet@v1") == "COMET_some_comet"
    assert score_name(str(tmp_path / "my-metric@2")) == "COMET_my_metric_2"


def test_two_models_of_one_name_are_refused(python: Path) -> None:
    with pytest.raises(ZooError, match="Two COMET models have one score name"):
        comet(python, "a/metric", "b/metric")


def test_the_script_imports_nothing_of_the_zoo_and_the_zoo_never_imports_comet() -> None:
    import ast

    root = Path(__file__).resolve().parents[3]
    for path in [*(root / "zoo").rglob("*.py"), root / "train.py", root / "evaluate.py"]:
        nodes = list(ast.walk(ast.parse(path.read_text())))
        names = {
            alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names
        }
        names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
        packages = {name.partition(".")[0] for name in names}
        if path.name == "score.py" and path.parent.name == "comet":
            assert "comet" in packages
            assert "zoo" not in packages
        else:
            assert not packages & {"comet", "pytorch_lightning"}, path


def test_lines_are_utf8_and_json(python: Path) -> None:
    one = comet(python, "a/b")
    assert one.score([Text("ü", "日本 \u2028 x", "日本")]) == {"COMET_b": [1.0]}
    (file,) = (python.parent / "cache").iterdir()
    assert set(json.loads(file.read_text())) == {"key", "score"}


def test_a_file_is_named_by_its_content_which_the_cache_of_the_hub_names_a_link_by(
    tmp_path: Path,
) -> None:
    blob, small = tmp_path / ("f" * score.SHA256), tmp_path / "small"
    digest = hashlib.sha256(b"x").hexdigest()
    for file in (blob, small):
        file.write_bytes(b"x")
        (tmp_path / f"link to {file.name}").symlink_to(file)
        assert score.sha256(file) == digest
    assert score.sha256(tmp_path / f"link to {blob.name}") == blob.name
    assert score.sha256(tmp_path / f"link to {small.name}") == digest


def test_a_model_has_one_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    with pytest.raises(score.BadModel, match="not 0"):
        score.checkpoint_of(tmp_path)
    (folder / "a.ckpt").touch()
    assert score.checkpoint_of(tmp_path) == folder / "a.ckpt"
    (folder / "b.ckpt").touch()
    with pytest.raises(score.BadModel, match="not 2"):
        score.checkpoint_of(tmp_path)
