"""An evaluation of a model behind a server, from the command to the files of the run."""

import json
from pathlib import Path

import pytest

from tests.evaluation.conftest import Evaluate
from tests.fixtures.chat_server import ChatModel, serving

KEY = "sk-a-secret-of-the-server"


@pytest.mark.parametrize("words", [["evaluation.batch_size=2"], ["smoke=true"]])
def test_the_key_is_in_no_file_of_a_run(
    evaluate: Evaluate, here: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setenv("SERVER_KEY", KEY)
    model = ChatModel(key=KEY)
    with serving(model) as url:
        given = ["system=wait_k", "history=reference_segments", "backbone=chat_server"]
        given += [f"backbone.url={url}", "backbone.api_key_variable=SERVER_KEY"]
        given += ["backbone.direct=true", "evaluation.talks=1", "evaluation.knob_values=[3]"]
        given += ["evaluation.upper_bound=false", "logger=csv"]
        done = evaluate(*given, "evaluation.oracle_k=[]", *words, tiny=False)
    if words == ["smoke=true"]:
        assert "no weights on this machine" in done.out + done.err
    else:
        assert done.code == 0, done.err
        (results,) = here.rglob("results.json")
        assert json.loads(results.read_text())[0]["scores"]["BLEU"] >= 0
    assert len(model.requests) > 2
    assert "HTTP Request" not in done.err
    files = [path for path in here.rglob("*") if path.is_file()]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
    assert KEY not in done.out + done.err
