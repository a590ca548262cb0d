"""Equal to published tools on real logs of other systems; values are from their score files."""

from dataclasses import replace
from pathlib import Path

import pytest

from zoo.formats.logs import read_log
from zoo.formats.references import read_references
from zoo.languages import Language, language
from zoo.metrics.longform import score_talks
from zoo.metrics.references import ReferenceSegment
from zoo.metrics.sentences import score_sentences
from zoo.types import Instance

LOGS = Path(__file__).resolve().parents[3] / "shared" / "data" / "logs"
pytestmark = pytest.mark.skipif(not LOGS.is_dir(), reason=f"the recorded logs are not at {LOGS}")

IWSLT = [
    ("iwslt25_acl6060_de_cascade", language("de")),
    ("iwslt25_acl6060_zh_fixed", language("zh")),
]
OMNISTEVAL = "omnisteval_speech"


def load(
    folder: str, target: Language, segments: str
) -> tuple[list[Instance], list[list[ReferenceSegment]]]:
    instances = read_log(LOGS / folder / "instances.log", language=target)
    code = target.code
    talks = read_references(LOGS / folder / segments, LOGS / folder / "references.txt", target=code)
    references = [
        [ReferenceSegment.of(one, target=code, talk=instance.talk) for one in talks[instance.talk]]
        for instance in instances
    ]
    return instances, references


def row(path: Path) -> dict[str, float]:
    """Names and values on the last two lines of a file."""
    names, values = path.read_text(encoding="utf-8").strip().split("\n")[-2:]
    return dict(zip(names.split("\t"), map(float, values.split("\t")), strict=True))


@pytest.mark.parametrize(("folder", "target"), IWSLT)
def test_simuleval_scorers_to_three_decimals(folder: str, target: Language) -> None:
    instances, _ = load(folder, target, "segments.yaml")
    # the published BLEU was made with SimulEval's default tokenizer, for Chinese too
    scores = score_sentences(
        instances, language=replace(target, bleu_tokenizer="13a"), rules="simuleval"
    )
    expected = row(LOGS / folder / "scores.tsv")
    assert set(expected) == {"BLEU", "LAAL", "AL", "AP", "DAL", "ATD"}
    for name, value in expected.items():
        ours = scores[name].value
        assert ours is not None
        assert ours * (1 if name in ("BLEU", "AP") else 1000) == pytest.approx(
            value, abs=5.01e-4, rel=0
        ), name


@pytest.mark.parametrize(("folder", "target"), IWSLT)
def test_fbk_stream_laal_to_six_digits(folder: str, target: Language) -> None:
    instances, references = load(folder, target, "segments.yaml")
    scores = score_talks(instances, references, language=target, rules="simuleval").scores
    expected = row(LOGS / folder / "scores.resegmented.tsv")
    assert set(expected) == {"BLEU", "StreamLAAL", "StreamLAAL_CA"}
    for name, value in expected.items():
        ours = scores[name].value
        assert ours is not None
        assert ours * (1 if name == "BLEU" else 1000) == pytest.approx(value, rel=1e-6), name


def test_omnisteval_example_to_four_decimals() -> None:
    instances, references = load(OMNISTEVAL, language("de"), "ref_segments.yaml")
    scores = score_talks(
        instances, references, language=language("de"), rules="omnisteval", resegmentation="soft"
    ).scores
    lines = (
        (LOGS / OMNISTEVAL / "segmentation_output" / "scores.tsv")
        .read_text(encoding="utf-8")
        .strip()
        .split("\n")
    )
    expected = {name: float(value) for name, value in (line.split("\t") for line in lines[1:])}
    assert len(expected) == 12
    for name, value in expected.items():
        ours = scores[name.replace(" (CU)", "").replace(" (CA)", "_CA")].value
        assert ours is not None
        plain = name in ("BLEU", "chrF") or "AP" in name
        assert ours * (1 if plain else 1000) == pytest.approx(value, abs=1e-4, rel=0), name


def test_omnisteval_by_characters_to_four_decimals() -> None:
    """OmniSTEval 0.1.10 on the Chinese log with --char_level --fix_simuleval_emission_ca."""
    instances, references = load(*IWSLT[1], "segments.yaml")
    scores = score_talks(
        instances, references, language=language("zh"), rules="omnisteval", resegmentation="soft"
    ).scores
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
    for name, value in expected.items():
        ours = scores[name].value
        assert ours is not None
        plain = name in ("BLEU", "chrF") or "AP" in name
        assert ours * (1 if plain else 1000) == pytest.approx(value, abs=1e-4, rel=0), name


def test_omnisteval_segments_hold_the_same_words() -> None:
    path = LOGS / OMNISTEVAL / "segmentation_output" / "instances.resegmented.jsonl"
    theirs = read_log(path, language=language("de"), format="omnisteval")
    instances, references = load(OMNISTEVAL, language("de"), "ref_segments.yaml")
    ours = score_talks(
        instances, references, language=language("de"), rules="omnisteval", resegmentation="soft"
    )
    assert len(theirs) == 468
    assert [segment.hypothesis for segment in ours.segments] == [other.text for other in theirs]


def test_scores_of_omnisteval_segments_are_those_of_its_report() -> None:
    """Its segments hold corrected times, and the end of the recording."""
    path = LOGS / OMNISTEVAL / "segmentation_output" / "instances.resegmented.jsonl"
    streams = read_log(path, language=language("de"), format="omnisteval")
    references = [
        [ReferenceSegment(0.0, stream.source_length, stream.reference)] for stream in streams
    ]
    scores = score_talks(
        streams, references, language=language("de"), rules="omnisteval", resegmentation="soft"
    ).scores
    lines = (path.parent / "scores.tsv").read_text(encoding="utf-8").strip().split("\n")[1:]
    assert len(lines) == 12
    for name, value in (line.split("\t") for line in lines):
        ours = scores[name.replace(" (CU)", "").replace(" (CA)", "_CA")].value
        assert ours is not None
        plain = name in ("BLEU", "chrF") or "AP" in name
        assert ours * (1 if plain else 1000) == pytest.approx(float(value), abs=1e-4, rel=0), name


def test_order_of_the_log_does_not_matter() -> None:
    instances, references = load(*IWSLT[0], "segments.yaml")
    forward = score_talks(instances[:2], references[:2], language=language("de")).scores
    backward = score_talks(instances[1::-1], references[1::-1], language=language("de")).scores
    for name, score in forward.items():
        assert backward[name].value == pytest.approx(score.value), name
