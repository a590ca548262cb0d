"""The scorers of other tools read the files of a row and compute our scores.

Each test runs in an environment with the tool (docs/interop.md).
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.extras.interop.conftest import GERMAN, Spoken
from zoo.base.types import Instance
from zoo.metrics.longform import score_talks
from zoo.metrics.references import ReferenceSegment
from zoo.metrics.resegmentation import Resegmenter
from zoo.metrics.sentences import score_sentences
from zoo.metrics.signature import Score


@pytest.fixture
def references(
    spoken: Spoken, translated: list[Instance], tmp_path: Path
) -> list[list[ReferenceSegment]]:
    return spoken.row(tmp_path, translated)


def printed(module: str, folder: Path, *arguments: str) -> str:
    """What the command line of a module prints, run in ``folder``."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def seconds(scores: dict[str, Score], name: str) -> float:
    value = scores[name].value
    assert value is not None
    return value


def test_simuleval(
    references: list[list[ReferenceSegment]], translated: list[Instance], tmp_path: Path
) -> None:
    pytest.importorskip("simuleval", reason="SimulEval is not installed")
    ours = score_sentences(translated, language=GERMAN, rules="simuleval", convention="cumulative")
    given = ("--score-only", "--output", ".", "--latency-metrics", "LAAL", "AL")
    # With --computation-aware SimulEval's LAAL is the computation-aware one, too.
    for suffix, flags in (("", ()), ("_CA", ("--computation-aware",))):
        lines = printed("simuleval.cli", tmp_path, *given, *flags).strip().splitlines()[-2:]
        names, (_, *values) = (line.split() for line in lines)
        theirs = dict(zip(names, map(float, values), strict=True))
        assert theirs["BLEU"] == pytest.approx(seconds(ours, "BLEU"), abs=6e-4)
        for name in ("LAAL", "AL"):
            expected = seconds(ours, name + suffix) * 1000
            assert theirs[name] == pytest.approx(expected, abs=6e-4)


def test_omnisteval(
    references: list[list[ReferenceSegment]], translated: list[Instance], tmp_path: Path
) -> None:
    pytest.importorskip("omnisteval", reason="OmniSTEval is not installed")
    text = printed(
        "omnisteval.cli",
        tmp_path,
        *("longform", "--speech_segmentation", "segments.yaml"),
        *("--ref_sentences_file", "segments.ref", "--hypothesis_file", "instances.log"),
        *("--lang", "de", "--word_level", "--fix_simuleval_emission_ca"),
    )
    ours = score_talks(
        translated,
        references,
        language=GERMAN,
        resegmenter=Resegmenter("soft"),
        rules="omnisteval",
        convention="cumulative",
    ).scores
    found = re.findall(r"^  (BLEU|chrF|Long\w+)(?: \((CU|CA)\))? +([\d.-]+)$", text, re.MULTILINE)
    assert len(found) == 12
    for name, times, value in found:
        our = seconds(ours, f"{name}_CA" if times == "CA" else name)
        in_ms = times and name != "LongAP"
        assert our * (1000 if in_ms else 1) == pytest.approx(float(value), abs=1e-4)


def test_simulstream(
    references: list[list[ReferenceSegment]], translated: list[Instance], tmp_path: Path
) -> None:
    pytest.importorskip("simulstream", reason="simulstream is not installed")
    log = ("--eval-config", "simulstream.yaml", "--log-file", "simulstream.jsonl")
    ours = score_talks(
        translated, references, language=GERMAN, rules="simuleval", convention="chunk"
    ).scores
    text = printed(
        "simulstream.metrics.score_latency",
        tmp_path,
        *log,
        *("--audio-definition", "segments.yaml", "--reference", "segments.ref"),
        *("--scorer", "stream_laal"),
    )
    theirs = [float(value) for value in re.findall(r"latency=([\d.e-]+)", text)]
    # simulstream's StreamLAAL has no minimum of 0, as our LongLAAL.
    expected = [seconds(ours, name) for name in ("LongLAAL", "LongLAAL_CA")]
    assert theirs == pytest.approx(expected, abs=1e-6)

    stats = printed("simulstream.metrics.stats", tmp_path, *log)
    values = [float(value) for value in re.findall(r'"value": ([\d.e-]+)', stats)]
    assert values == pytest.approx([0.0, seconds(ours, "RTF")])
