"""data=aligned: a folder of manifests; incomplete talks are refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from zoo.base.errors import ZooError
from zoo.base.talks import Segment, Talk, Target, Word
from zoo.data import manifest
from zoo.data.corpora import Aligned

WORDS = (Word("Good", 1.0, 1.25), Word("cat.", 1.25, 1.75))
TARGET = Target("Gute Katze.", ("Gute", "Katze."), ((0,), (0, 1)))
SEGMENT = Segment(1.0, 0.75, "Good cat.", WORDS, {"de": TARGET})


def folder_with(folder: Path, *segments: Segment) -> str:
    talks = [
        Talk(f"t-{place}", folder / "a.wav", 3.5, "en", (segment,))
        for place, segment in enumerate(segments)
    ]
    manifest.write(folder / "train.jsonl", talks)
    return str(folder)


def test_a_split_is_a_file(tmp_path: Path) -> None:
    corpus = Aligned(
        folder=folder_with(tmp_path, SEGMENT, replace(SEGMENT, targets={"de": Target("Ohne.")}))
    )
    assert [talk.name for talk in corpus.talks("train")] == ["t-0", "t-1"]
    [talk] = corpus.talks("train", limit=1)
    assert (talk.segments, talk.file) == ((SEGMENT,), tmp_path / "a.wav")
    with pytest.raises(ZooError, match=r"no split 'dev' in .*; it has: train"):
        corpus.talks("dev")
    with pytest.raises(ZooError, match=r"needs data\.folder"):
        Aligned(folder=None).talks("train")


@pytest.mark.parametrize(
    ("alignment", "sentence"),
    [
        (
            ((0,),),
            r"line 2: segments\[0\].targets\['de'\] has 2 words, but alignment has 1 entries",
        ),
        (
            ((0,), (2,)),
            r"line 2: .*alignment\[1\] names source word 2; there are 2, counted from 0",
        ),
        (((-1,), ()), r"alignment\[0\] names source word -1"),
    ],
)
def test_alignments_to_nothing_are_refused(
    tmp_path: Path, alignment: object, sentence: str
) -> None:
    wrong = replace(SEGMENT, targets={"de": replace(TARGET, alignment=alignment)})
    with pytest.raises(ZooError, match=sentence):
        Aligned(folder=folder_with(tmp_path, SEGMENT, wrong)).talks("train")


def test_segments_that_were_not_aligned_can_be_left_out_of_trainings(tmp_path: Path) -> None:
    applause = Segment(2.0, 0.5, "(Applause)", (), {"de": Target("(Applaus)", ("(Applaus)",))})
    failed = replace(SEGMENT, targets={"de": Target("Gute Katze.")})
    folder = folder_with(tmp_path, SEGMENT, applause, failed)
    refused = Aligned(folder=folder).talks("train")
    assert [talk.segments[0].usable for talk in refused] == [True, True, True]
    skipped = Aligned(folder=folder, unaligned="skip").talks("train")
    assert [talk.segments[0].usable for talk in skipped] == [True, False, False]
    with pytest.raises(ZooError, match="Unknown unaligned 'drop'; choose one of: refuse, skip"):
        Aligned(folder=folder, unaligned="drop")  # type: ignore[arg-type]
