"""Segment lists with reference texts."""

from pathlib import Path

import pytest

from zoo.base.errors import ZooError
from zoo.base.talks import Segment, Target
from zoo.formats.references import read_references


def test_reference_files(tmp_path: Path) -> None:
    segments, texts = tmp_path / "s.yaml", tmp_path / "r.txt"
    segments.write_text(
        "- {duration: 2.5, offset: 0.5, speaker_id: a, wav: x/2022.acl-long.1.wav}\n"
        "- {duration: 1, offset: 3, speaker_id: a, wav: 2022.acl-long.1.wav}\n",
        encoding="utf-8",
    )
    texts.write_text("eins\nzwei \n", encoding="utf-8")
    references = read_references(segments, texts, target="de")
    assert references == {
        "2022.acl-long.1": (
            Segment(0.5, 2.5, "", targets={"de": Target("eins")}),
            Segment(3.0, 1.0, "", targets={"de": Target("zwei")}),
        )
    }
    texts.write_text("eins\n \n", encoding="utf-8")
    (first, second) = read_references(segments, texts, target="de")["2022.acl-long.1"]
    assert (first.targets["de"].text, second.targets["de"].text) == ("eins", "")
    texts.write_text("eins\n", encoding="utf-8")
    with pytest.raises(ZooError, match=r"2 segments but .* 1 lines"):
        read_references(segments, texts, target="de")
    with pytest.raises(ZooError, match="no file"):
        read_references(tmp_path / "none.yaml", texts, target="de")
    texts.write_bytes(b"\xff\xfe\n")
    with pytest.raises(ZooError, match=r"r\.txt is not a text file in UTF-8"):
        read_references(segments, texts, target="de")
    segments.write_text("a: 1\n", encoding="utf-8")
    with pytest.raises(ZooError, match="not a list of segments"):
        read_references(segments, texts, target="de")
