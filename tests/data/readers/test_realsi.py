"""RealSI's published texts, with silence in place of the recordings."""

import json
from pathlib import Path

import pytest
import soundfile
import torch

from zoo.base.audio import files as audio
from zoo.data.readers.realsi import RealSI

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data" / "realsi"


@pytest.mark.skipif(not SHARED.is_dir(), reason="RealSI is not beside the repository")
def test_the_published_texts_are_read(tmp_path: Path) -> None:
    lengths = {}
    for path in sorted(SHARED.glob("en2zh-*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        seconds = lengths[path.stem] = found["duration"] / 1000
        soundfile.write(tmp_path / f"{path.stem}.flac", [0.0] * round(seconds * 1000), 1000)
    corpus = RealSI(
        root=str(SHARED), audio=str(tmp_path), source_language="en", target_language="zh"
    )
    talks = corpus.talks("tst")
    assert [talk.name for talk in talks] == sorted(lengths)
    assert len(talks) == 10
    for talk in talks:
        assert talk.duration == pytest.approx(lengths[talk.name], abs=0.01)
        assert talk.segments[-1].end <= talk.duration + 1e-6
        assert all(segment.source and segment.targets["zh"].text for segment in talk.segments)
    assert talks[0].segments[1].source == "Yeah, yeah, I think that answers my question."
    assert (talks[0].segments[1].offset, talks[0].segments[1].duration) == (6.25, 2.5)


def test_a_segment_may_end_shortly_after_its_audio(tmp_path: Path) -> None:
    audio.write(tmp_path / "en2de-a.wav", torch.zeros(2 * 16_000))
    segment = {"start_time": 1000, "end_time": 3200, "src_text": "A.", "trg_text": "B."}
    (tmp_path / "en2de-a.json").write_text(json.dumps({"vid": "en2de-a", "segment": [segment]}))
    corpus = RealSI(root=str(tmp_path), source_language="en", target_language="de")
    [talk] = corpus.talks("tst")
    assert talk.segments[0].end == 2.0
