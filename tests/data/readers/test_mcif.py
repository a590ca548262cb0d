"""MCIF as the development set of IWSLT 2026 has it: what its irregular lines become."""

from itertools import pairwise
from pathlib import Path

import pytest

from zoo.base.languages import language
from zoo.data.readers.iwslt import IWSLT
from zoo.evaluation.talks import check_talks

pytest.importorskip("datasets", reason="the extra datasets is not installed")


@pytest.mark.parametrize("code", ["de", "zh", "it"])
def test_the_development_set_is_read_as_it_is(code: str, tmp_path: Path) -> None:
    from tests.rehearsal.corpora import mcif

    mcif(tmp_path)
    texts = (tmp_path / "ref" / f"{code}.txt").read_text(encoding="utf-8").splitlines()
    corpus = IWSLT(
        segments=str(tmp_path / "audio-segments.yaml"),
        audio=str(tmp_path / "audio"),
        transcripts=str(tmp_path / "ref" / "en.txt"),
        references=str(tmp_path / "ref" / f"{code}.txt"),
        source_language="en",
        target_language=code,
    )
    talks = corpus.talks("dev")
    check_talks(talks, source=language("en"), target=language(code))
    assert [talk.name for talk in talks] == ["OiqEWDVtWk", "NuMKTxzETS"]
    found = [segment.targets[code].text for talk in talks for segment in talk.segments]
    assert sorted(found) == sorted(texts)
    assert any(text.startswith('"') and text.endswith('""so""') for text in found)
    first = talks[0].segments
    assert any(two.offset < one.end for one, two in pairwise(first))
