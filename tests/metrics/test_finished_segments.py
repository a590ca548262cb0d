"""Segments that another tool has finished, and text in characters under the rules of a tool."""

import json
from pathlib import Path

import pytest

from zoo.base.languages import language
from zoo.base.types import Instance
from zoo.formats.logs import read_log
from zoo.metrics.longform import score_talks
from zoo.metrics.references import ReferenceSegment
from zoo.metrics.resegmentation import Resegmentation, Resegmenter

DE, ZH = language("de"), language("zh")


@pytest.mark.parametrize("resegmentation", ["soft", "mwer"])
def test_a_finished_segment_stays_as_it_is(resegmentation: Resegmentation, tmp_path: Path) -> None:
    """SoftSegmenter would drop the mark at its beginning, which no word of the reference has."""
    times = [-100.00000004, 7211.5722579956055, 9050.0]
    record = {
        "docid": 0,
        "segid": 0,
        "prediction": ". Ja gut",
        "reference": "Ja gut",
        "source_length": 9050.0,
        "emission_cu": times,
        "emission_ca": times,
        "time_to_recording_end": 20_000.0,
    }
    path = tmp_path / "instances.resegmented.jsonl"
    path.write_text(json.dumps(record) + "\n")
    [stream] = read_log(path, language=DE, format="omnisteval")
    references = [[ReferenceSegment(0.0, stream.source_length, stream.reference)]]
    [segment] = score_talks(
        [stream],
        references,
        language=DE,
        rules="omnisteval",
        resegmenter=Resegmenter(resegmentation),
    ).segments
    assert segment.hypothesis == ". Ja gut"
    assert segment.delays == segment.elapsed == tuple(time / 1000 for time in times)


@pytest.mark.parametrize(
    ("rules", "hypothesis"), [("zoo", "用 Bill Gates 的话"), ("simuleval", "用BillGates的话")]
)
def test_spaces_between_characters(rules: str, hypothesis: str) -> None:
    """FBK's StreamLAAL removes them from the text that it scores, also those in names."""
    text = "用 Bill Gates 的话"
    units = tuple("".join(text.split()))
    times = tuple(0.1 * (place + 1) for place in range(len(units)))
    stream = Instance(0, "t", 4.0, text, units, times, (), unit="char")
    references = [[ReferenceSegment(0.0, 2.0, text), ReferenceSegment(2.0, 2.0, "好")]]
    first, second = score_talks([stream], references, language=ZH, rules=rules).segments
    assert (first.hypothesis, second.hypothesis) == (hypothesis, "")
    assert first.reference == text
