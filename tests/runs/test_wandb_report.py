"""The layout of the W&B report, and the sentence of an environment that lacks its library."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from zoo.runs.wandb_report import LIBRARY, main


def found(value: Any, key: str) -> Iterator[Any]:
    """Yield the values of a key anywhere in JSON values."""
    if isinstance(value, dict):
        for name, item in value.items():
            if name == key:
                yield item
            yield from found(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from found(item, key)


def test_the_layout_has_the_keys_that_evaluations_log(tmp_path: Path) -> None:
    pytest.importorskip(LIBRARY)
    path = tmp_path / "layout.json"
    main(["--test-set=dev/en-es", "--group=sweep7", "--json", str(path)])
    spec = json.loads(path.read_text())
    headings = [
        block["children"][0]["text"] for block in spec["blocks"] if block["type"] == "heading"
    ]
    assert headings == ["Quality over latency", "Results", "Hypotheses", "Pages and target speech"]
    panels = [
        panel for panels in found(spec, "panels") if isinstance(panels, list) for panel in panels
    ]
    assert {panel["viewType"] for panel in panels} == {
        "Vega2",
        "Run History Line Plot",
        "Weave",
        "Media Browser",
    }
    text = json.dumps(spec)
    for key in (
        "curves/BLEU_table",
        "curves/COMET_table",
        "curves/ASR_BLEU_table",
        "dev/en-es/StreamLAAL",
        "dev/en-es/BLEU",
        "summary:dev/en-es/best",
        "results",
        "hypotheses",
        "speech",
        "sweep7",
    ):
        assert f'"{key}"' in text, key


def test_without_its_library_there_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    for arguments in (["--json", str(tmp_path / "x.json")], ["--project=p"]):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == 2
        assert capsys.readouterr().err == (
            "error: A report on W&B needs wandb-workspaces; install it with: "
            "pip install 'simulzoo[wandb-report]'.\n"
        )
    assert list(tmp_path.glob("*.json")) == []


def test_a_server_that_cannot_be_reached_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip(LIBRARY)
    monkeypatch.setattr("wandb.Api", lambda: (_ for _ in ()).throw(ConnectionError("refused")))
    with pytest.raises(SystemExit) as stopped:
        main([])
    assert stopped.value.code == 2
    assert capsys.readouterr().err == "error: W&B did not create the report: refused\n"
