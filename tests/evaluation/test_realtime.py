"""``system=realtime`` from the command to the files of the run."""

import json
from pathlib import Path

import pytest

from tests.evaluation.conftest import Evaluate
from tests.fixtures.realtime_server import delta, serving, vllm
from zoo.base.languages import language
from zoo.formats.logs import read_log
from zoo.runs.rows.store import StreamStore

KEY = "sk-a-secret-of-the-server"
QUICK = ["logger=csv", "evaluation.oracle_k=[]"]
DONE = {"type": "transcription.done"}
WORDS = vllm((0.5, "Eins"), (2.0, "Vier"), ended=[delta(" fünf.", deleted=" Vier"), DONE])


def test_an_endpoint_and_a_system_share_a_table_and_a_page(
    evaluate: Evaluate, mustc: list[str], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVER_KEY", KEY)
    with serving(WORDS, key=KEY) as url:
        live = f'"system=realtime", "system.url={url}", "system.api_key_variable=SERVER_KEY"'
        done = evaluate(
            f'compare={{ours: ["system.knob=null"], live: [{live}]}}',
            *mustc,
            *QUICK,
            "evaluation.batch_size=2",
            "hydra.verbose=true",
            tiny=False,
        )
    assert done.code == 0, done.err
    assert WORDS.headers["Authorization"] == f"Bearer {KEY}"
    assert "live offline is skipped: a realtime endpoint receives audio as it is spoken" in done.out
    (results,) = here.rglob("results.json")
    rows = {row["system"]: row for row in json.loads(results.read_text())}
    scores, log = rows["live"]["scores"], results.parent / rows["live"]["instances"]
    assert scores["StreamLAAL_CA"] >= scores["StreamLAAL"] > 0
    assert "RTF" in rows["ours"]["scores"].keys() - scores.keys()
    assert scores["NormalizedErasure"] == 0.5
    assert (rows["live"]["stages"], "compute" in rows["live"]["settings"]) == ({}, False)

    streams = StreamStore(log.parent).read()
    for one, logged in zip(streams.values(), read_log(log, language=language("de")), strict=True):
        assert one.units == logged.units == ("Eins", "fünf.")
        assert one.delays[1] == one.source_length == 4.0
        assert one.elapsed == pytest.approx(logged.elapsed)
        assert (
            [event.text for event in one.events]
            == ["Vier"]
            == [event.text for event in logged.events]
        )
    assert "Vier" in (results.parent / "report.html").read_text()
    files = [path for path in here.rglob("*") if path.is_file()]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
    assert KEY not in done.out + done.err


def test_a_run_whose_server_fails_is_resumed(
    evaluate: Evaluate, mustc: list[str], here: Path
) -> None:
    failing = vllm(spoken={1.0: [(1011, "out of memory")]})
    with serving(WORDS, WORDS, failing, WORDS) as url:
        command = ["system=realtime", f"system.url={url}", *mustc, *QUICK]
        first = evaluate(*command, "hydra.run.dir=run", tiny=False)
        assert first.code == 2
        assert "closes the connection: 1011 out of memory (talk 'ted_" in first.err
        (streams,) = here.rglob("streams.jsonl")
        assert streams.read_bytes().count(b"\n") == 1
        kept = streams.read_bytes()
        again = evaluate("resume=run", tiny=False)
        assert "use keys; add it to the command if you want it" in again.err
        again = evaluate("resume=run", "system=realtime", tiny=False)
    assert again.code == 0, again.err
    assert streams.read_bytes().startswith(kept)
    assert streams.read_bytes().count(b"\n") == 2


def test_mistakes_are_one_sentence_before_any_work(
    evaluate: Evaluate, mustc: list[str], here: Path
) -> None:
    with serving(vllm(updated=[{"type": "error", "error": "no such model"}])) as url:
        cases = {
            "system.url=null": "system=realtime needs system.url, the address of a realtime",
            "system.url=nonsense": "system.url must be an address such as http://127.0.0.1:8741",
            "system.url=http://127.0.0.1:9": "cannot be reached (",
            f"system.url={url}": "reports an error: no such model (silence before all talks).",
            f"system.url={url} system.api_key_variable=NO_SUCH_KEY": (
                "The environment variable NO_SUCH_KEY is not set; system.api_key_variable names it."
            ),
            "system.api_key_variable=sk-1": "must be the name of an environment variable",
            "system.dialect=other": "system.dialect must be one of vllm, openai_transcription,",
            f"system.url={url} system.dialect=openai_translation": "needs system.model.",
            "system.piece_seconds=0": "needs piece_seconds above 0, not 0",
            "evaluation.knob_values=[1]": "has no latency knob",
        }
        for words, sentence in cases.items():
            given = words.split()
            done = evaluate("system=realtime", *given, *mustc, *QUICK, tiny=False)
            assert (done.code, sentence in done.err) == (2, True), done.err
            assert done.err.count("\n") == 1
        # in a comparison, the server is contacted before the first system streams
        live = f'"system=realtime", "system.url={url}"'
        done = evaluate(f"compare={{ours: [], live: [{live}]}}", *mustc, *QUICK, tiny=False)
        assert (done.code, "no such model" in done.err) == (2, True), done.err
    assert not (here / "outputs").exists()
