"""Equal to published tools on real logs of other systems; values are from their score files."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from zoo.base.languages import Language, language
from zoo.base.types import Instance
from zoo.formats.logs import read_log
from zoo.formats.references import read_references
from zoo.metrics.longform import LongFormScores, score_talks
from zoo.metrics.references import ReferenceSegment
from zoo.metrics.resegmentation import Resegmenter
from zoo.metrics.sentences import score_sentences
from zoo.metrics.signature import Score

LOGS = Path(__file__).resolve().parents[3] / "shared" / "data" / "logs"
pytestmark = pytest.mark.skipif(not LOGS.is_dir(), reason=f"the recorded logs are not at {LOGS}")

DE, ZH = language("de"), language("zh")
IWSLT = [("iwslt25_acl6060_de_cascade", DE), ("iwslt25_acl6060_zh_fixed", ZH)]
OMNISTEVAL = "omnisteval_speech"
SEGMENTED = LOGS / OMNISTEVAL / "segmentation_output"
PLAIN = ("BLEU", "chrF", "AP", "LongAP", "LongAP_CA")  # all others are times


@cache
def load(folder: str, target: Language) -> tuple[list[Instance], list[list[ReferenceSegment]]]:
    instances = read_log(LOGS / folder / "instances.log", language=target)
    segments = LOGS / folder / ("ref_segments.yaml" if folder == OMNISTEVAL else "segments.yaml")
    code = target.code
    talks = read_references(segments, LOGS / folder / "references.txt", target=code)
    references = [
        [ReferenceSegment.of(one, target=code, talk=instance.talk) for one in talks[instance.talk]]
        for instance in instances
    ]
    return instances, references


@cache
def by_omnisteval(folder: str, target: Language) -> LongFormScores:
    """A log with the rules and the segmentation of OmniSTEval."""
    instances, references = load(folder, target)
    return score_talks(
        instances, references, language=target, rules="omnisteval", resegmenter=Resegmenter("soft")
    )


def row(path: Path) -> dict[str, float]:
    """Names and values on the last two lines of a file."""
    names, values = path.read_text(encoding="utf-8").strip().split("\n")[-2:]
    return dict(zip(names.split("\t"), map(float, values.split("\t")), strict=True))


def report_of_omnisteval() -> dict[str, float]:
    """Names and values of a file with a line for each score."""
    lines = (SEGMENTED / "scores.tsv").read_text(encoding="utf-8").strip().split("\n")[1:]
    pairs = (line.split("\t") for line in lines)
    return {
        name.replace(" (CU)", "").replace(" (CA)", "_CA"): float(value) for name, value in pairs
    }


def assert_equal(
    scores: Mapping[str, Score], expected: Mapping[str, float], **tolerance: float
) -> None:
    """Compare our scores with those of a tool, whose times are milliseconds."""
    for name, value in expected.items():
        ours = scores[name].value
        assert ours is not None, name
        factor = 1 if name in PLAIN else 1000
        assert ours * factor == pytest.approx(value, **{"abs": 0, "rel": 0} | tolerance), name


@pytest.mark.parametrize(("folder", "target"), IWSLT)
def test_simuleval_scorers_to_three_decimals(folder: str, target: Language) -> None:
    instances, _ = load(folder, target)
    # the published BLEU was made with SimulEval's default tokenizer, for Chinese too
    scores = score_sentences(
        instances, language=replace(target, bleu_tokenizer="13a"), rules="simuleval"
    )
    expected = row(LOGS / folder / "scores.tsv")
    assert set(expected) == {"BLEU", "LAAL", "AL", "AP", "DAL", "ATD"}
    assert_equal(scores, expected, abs=5.01e-4)


@pytest.mark.parametrize(("folder", "target"), IWSLT)
def test_fbk_stream_laal_to_six_digits(folder: str, target: Language) -> None:
    instances, references = load(folder, target)
    scores = score_talks(instances, references, language=target, rules="simuleval").scores
    expected = row(LOGS / folder / "scores.resegmented.tsv")
    assert set(expected) == {"BLEU", "StreamLAAL", "StreamLAAL_CA"}
    assert_equal(scores, expected, rel=1e-6)


def test_omnisteval_example_to_four_decimals() -> None:
    expected = report_of_omnisteval()
    assert len(expected) == 12
    assert_equal(by_omnisteval(OMNISTEVAL, DE).scores, expected, abs=1e-4)


def test_omnisteval_by_characters_to_four_decimals() -> None:
    """OmniSTEval 0.1.10 on the Chinese log with --char_level --fix_simuleval_emission_ca."""
    expected = {
        "BLEU": 19.4135,
        "chrF": 16.5099,
        "LongAP": 1.3321,
        "LongAP_CA": 1.8796,
        "LongYAAL": 3245.0532,
        "LongAL": 2070.6081,
        "LongLAAL": 2914.3047,
        "LongDAL": 4253.5326,
        "LongYAAL_CA": 5316.5466,
        "LongAL_CA": 4442.5796,
        "LongLAAL_CA": 4978.5946,
        "LongDAL_CA": 6647.6386,
    }
    assert_equal(by_omnisteval(*IWSLT[1]).scores, expected, abs=1e-4)


def test_scores_of_omnisteval_segments_are_those_of_its_report() -> None:
    """Its segments hold the words of ours, corrected times, and the end of the recording."""
    path = SEGMENTED / "instances.resegmented.jsonl"
    streams = read_log(path, language=DE, format="omnisteval")
    assert len(streams) == 468
    ours = by_omnisteval(OMNISTEVAL, DE).segments
    assert [segment.hypothesis for segment in ours] == [stream.text for stream in streams]
    references = [
        [ReferenceSegment(0.0, stream.source_length, stream.reference)] for stream in streams
    ]
    scores = score_talks(
        streams, references, language=DE, rules="omnisteval", resegmenter=Resegmenter("soft")
    ).scores
    assert_equal(scores, report_of_omnisteval(), abs=1e-4)


def test_order_of_the_log_does_not_matter() -> None:
    instances, references = load(*IWSLT[0])
    forward = score_talks(instances[:2], references[:2], language=DE).scores
    backward = score_talks(instances[1::-1], references[1::-1], language=DE).scores
    for name, score in forward.items():
        assert backward[name].value == pytest.approx(score.value), name
