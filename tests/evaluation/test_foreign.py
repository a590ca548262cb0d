"""Agents of SimulEval and processors of simulstream as systems of evaluate.py.

The tests run in an environment with the tool (docs/interop.md); without it, a sentence names it.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.evaluation.conftest import Evaluate
from tests.fixtures import tiny_checkpoints
from zoo.base.languages import language
from zoo.base.types import Instance
from zoo.formats.logs import read_log
from zoo.formats.simulstream import SCORING

ROOT = Path(__file__).resolve().parents[2]
AGENT = ROOT / "tests" / "fixtures" / "waitk_agent.py"
WAIT_K = ["system=simuleval_agent", f"system.agent={AGENT}", "system.arguments={waitk_lagging: 2}"]
QUICK = ["logger=csv", "evaluation.oracle_k=[]", "evaluation.upper_bound=false"]


def rows() -> list[tuple[dict[str, Any], list[Instance]]]:
    """Rows of the only run, with the streams of each."""
    [results] = Path().glob("outputs/*/*/results.json")
    found: list[dict[str, Any]] = json.loads(results.read_text())
    german = language("de")
    return [(row, read_log(results.parent / row["instances"], language=german)) for row in found]


@pytest.mark.parametrize("tool", ["simuleval", "simulstream"])
def test_an_absent_tool_is_named_before_any_work(evaluate: Evaluate, tool: str) -> None:
    if find_spec(tool) is not None:
        pytest.skip(f"{tool} is installed")
    system = {"simuleval": "simuleval_agent", "simulstream": "simulstream_processor"}[tool]
    result = evaluate(f"system={system}", tiny=False)
    assert result.code == 2
    assert f"needs the package {tool}, which is not installed; run: pip install" in result.err
    assert result.err.count("\n") == 1
    assert not Path("outputs").exists()


@pytest.mark.parametrize("batch_size", [1, 2])
def test_an_agent_of_simuleval_has_the_delays_of_the_zoos_clock(
    evaluate: Evaluate, mustc: list[str], batch_size: int
) -> None:
    pytest.importorskip("simuleval", reason="SimulEval is not installed")
    result = evaluate(
        *WAIT_K,
        *mustc,
        *QUICK,
        "system.chunk_seconds=0.75",
        f"evaluation.batch_size={batch_size}",
        tiny=False,
    )
    assert result.code == 0, result.err
    [(row, streams)] = rows()
    assert row["system"] == "simuleval_agent"
    assert row["scores"]["StreamLAAL"] is not None
    # Talks of 4 s in steps of 0.75 s: the third second is complete at 3 s, the fourth at 4 s.
    for stream in streams:
        assert stream.units == ("0s", "1s", "2s", "3s")
        assert stream.delays == (3.0, 4.0, 4.0, 4.0)
        assert [chunk.arrival for chunk in stream.chunks] == [0.75, 1.5, 2.25, 3.0, 3.75, 4.0]


def test_an_agent_and_a_system_of_the_zoo_share_a_table(
    evaluate: Evaluate, mustc: list[str]
) -> None:
    pytest.importorskip("simuleval", reason="SimulEval is not installed")
    theirs = ", ".join(f'"{item}"' for item in WAIT_K)
    ours = '"system=streamatt", "system.knob=null", "backbone.search.beams=1"'
    result = evaluate(
        f"compare={{ours: [{ours}], theirs: [{theirs}]}}",
        *mustc,
        *QUICK,
        "evaluation.view=segments",
        tiny=False,
    )
    assert result.code == 0, result.err
    found = rows()
    assert {row["system"] for row, _ in found} == {"ours", "theirs"}
    assert all(row["scores"]["LAAL"] is not None for row, _ in found[-1:])
    [streams] = [streams for row, streams in found if row["system"] == "theirs"]
    assert [stream.units for stream in streams] == [("0s",)] * 4


def test_mistakes_of_agents_are_one_sentence(evaluate: Evaluate, mustc: list[str]) -> None:
    pytest.importorskip("simuleval", reason="SimulEval is not installed")
    cases = {
        "system.agent=none.py": "There is no agent none.py",
        "system.agent=null": "needs system.agent, a Python file",
        f"system.agent={AGENT}": "SimulEval does not accept the arguments",  # required ones lack
    }
    for override, sentence in cases.items():
        result = evaluate("system=simuleval_agent", override, *mustc, *QUICK, tiny=False)
        assert (result.code, sentence in result.err) == (2, True), result.err


def processor(kind: str, **options: Any) -> str:
    """Write the configuration of a processor of ``tests/fixtures`` and return its name."""
    config = {"type": f"tests.fixtures.simulstream_processors.{kind}", **SCORING, **options}
    Path("processor.yaml").write_text(yaml.safe_dump(config))
    return "processor.yaml"


def streamed_by_simulstream(corpus: Path, config: str, target: str) -> list[Instance]:
    """The streams of a processor that simulstream itself runs."""
    Path("wavs.txt").write_text("".join(f"{wav}\n" for wav in sorted(corpus.rglob("*.wav"))))
    command = [sys.executable, "-m", "simulstream.inference", "--wav-list-file", "wavs.txt"]
    command += ["--speech-processor-config", config, "--src-lang", "en", "--tgt-lang", target]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return read_log(Path("metrics.json"), language=language("de"), format="simulstream")


def same(ours: list[Instance], theirs: list[Instance]) -> bool:
    return len(ours) == len(theirs) and all(
        (our.talk, our.units) == (their.talk, their.units)
        and our.delays == pytest.approx(their.delays)
        for our, their in zip(ours, theirs, strict=True)
    )


@pytest.mark.parametrize("batch_size", [1, 2])
def test_a_word_that_is_translated_again_has_the_later_delay(
    evaluate: Evaluate, mustc: list[str], corpus: Path, batch_size: int
) -> None:
    pytest.importorskip("simulstream", reason="simulstream is not installed")
    config = processor("Retranslation", speech_chunk_size=1.5)
    system = ["system=simulstream_processor", f"system.config={config}"]
    result = evaluate(*system, *mustc, *QUICK, f"evaluation.batch_size={batch_size}", tiny=False)
    assert result.code == 0, result.err
    [(row, ours)] = rows()
    assert row["scores"]["BLEU"] is not None
    assert ours[0].units == ("w0", "w1", "w2", "last3.")
    assert ours[0].delays == (1.5, 3.0, 4.0, 4.0)
    assert same(ours, streamed_by_simulstream(corpus, config, "de"))


def test_simulstreams_streamatt_writes_what_it_writes_in_simulstream(
    evaluate: Evaluate, mustc: list[str], corpus: Path
) -> None:
    pytest.importorskip("simulstream", reason="simulstream is not installed")
    tiny_checkpoints.seamless_m4t_speech(Path("model"))
    history = {
        "type": "simulstream.server.speech_processors.base_streamatt.FixedWordsTextHistory",
        "history_words": 2,
    }
    config = processor(
        "StreamAtt",
        hf_model_name="model",
        text_history=history,
        speech_chunk_size=1.1,
        cross_attention_layer=1,
        num_beams=1,
        max_new_tokens=8,
    )
    system = ["system=simulstream_processor", f"system.config={config}", "system.tgt_lang=deu"]
    result = evaluate(*system, *mustc, *QUICK, tiny=False)
    assert result.code == 0, result.err
    [(_, ours)] = rows()
    theirs = streamed_by_simulstream(corpus, config, "deu")
    # The random network begins no word in the second talk, and the log does not state it.
    assert len(ours[0].units) > 1
    assert same(ours[:1], theirs[:1])
    assert "".join(ours[1].units) == "".join(theirs[1].units)


def test_mistakes_of_processors_are_one_sentence(evaluate: Evaluate, mustc: list[str]) -> None:
    pytest.importorskip("simulstream", reason="simulstream is not installed")
    Path("empty.yaml").write_text("a: 1\n")
    cases = {
        "null": "needs system.config, the YAML file of a processor",
        "none.yaml": "There is no file none.yaml",
        "empty.yaml": "it needs the key 'type'",
    }
    for config, sentence in cases.items():
        result = evaluate(
            "system=simulstream_processor", f"system.config={config}", *mustc, *QUICK, tiny=False
        )
        assert (result.code, sentence in result.err) == (2, True), result.err
