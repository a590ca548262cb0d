"""The files of the segments of a row."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU as SacreBLEU
from sacrebleu.metrics.chrf import CHRF as SacreCHRF

from zoo.base.languages import language
from zoo.base.talks import Segment, Talk, Target
from zoo.base.types import Instance
from zoo.evaluation.segments import segments_of, write_segment_files
from zoo.metrics.longform import score_talks
from zoo.metrics.references import ReferenceSegment
from zoo.metrics.rules import find_rules

TALK = Talk(
    "t",
    Path("t.wav"),
    9.0,
    "en",
    (
        Segment(1.0, 2.0, "one two", targets={"de": Target("eins zwei")}),
        Segment(4.0, 3.0, "three\nfour", targets={"de": Target("drei vier")}),
    ),
)
STREAM = Instance(
    index=0,
    talk="t",
    source_length=9.0,
    text="eins zwei drei fünf",
    units=("eins", "zwei", "drei", "fünf"),
    delays=(2.0, 3.0, 6.0, 8.0),
    elapsed=(2.5, 3.5, 6.5, 8.5),
)


@pytest.mark.parametrize("timed", [True, False])
def test_segments_are_written_with_their_times_and_scores(tmp_path: Path, timed: bool) -> None:
    stream = STREAM if timed else replace(STREAM, elapsed=())
    references = [ReferenceSegment.of(one, target="de", talk="t") for one in TALK.segments]
    result = score_talks([stream], [references], language=language("de"))
    rules = find_rules("zoo")
    segments = segments_of([TALK], result.segments, language=language("de"), rules=rules)
    write_segment_files(tmp_path, [TALK], segments)
    first, second = map(json.loads, (tmp_path / "segments.jsonl").read_text().splitlines())
    assert (first["talk"], first["segment"], second["segment"]) == ("t", 0, 1)
    assert (second["source"], second["hypothesis"]) == ("three\nfour", "drei fünf")
    assert second["delays"] == [2.0, 4.0]
    assert second["elapsed"] == ([2.5, 4.5] if timed else [])
    # pace 1.5 s; the second unit is the first one after the end
    assert second["scores"]["LAAL"] == pytest.approx((2.0 + 4.0 - 1.5) / 2)
    assert ("LAAL_CA" in second["scores"]) == timed
    for name, score in (("StreamLAAL", "StreamLAAL"), ("YAAL", "LongYAAL")):
        mean = (first["scores"][name] + second["scores"][name]) / 2
        assert mean == pytest.approx(result.scores[score].value)
    found = SacreCHRF().sentence_score("drei fünf", ["drei vier"]).score
    assert second["scores"]["chrF"] == pytest.approx(found, abs=1e-4)

    texts = {
        suffix: (tmp_path / f"segments.{suffix}").read_text().splitlines()
        for suffix in ("src", "ref", "hyp")
    }
    assert texts["src"] == ["one two", "three four"]
    bleu = SacreBLEU().corpus_score(texts["hyp"], [texts["ref"]]).score
    assert bleu == pytest.approx(result.scores["BLEU"].value)
