"""Statistics of trajectories: LAAL of sentences, lengths of robust segments, the command."""

from dataclasses import replace
from pathlib import Path

import pytest

from zoo.apps.prepare.trajectories import main, segment_lengths, sentence_trajectories
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.talks import Segment, Talk, Target, Word
from zoo.data import manifest

GERMAN = language("de")


def talk(offset: float = 5.0) -> Talk:
    """One sentence of 3 s: "b" ends in the second chunk; its translation depends on "c"."""
    words = tuple(
        Word(text, offset + start, offset + start + 0.5)
        for text, start in (("a", 0.0), ("b", 1.0), ("c", 2.4))
    )
    target = Target("x y z", ("x", "y", "z"), ((0,), (2,), (1,)))
    segment = Segment(offset, 3.0, "a b c", words=words, targets={"de": target})
    return Talk("talk", Path("talk.wav"), 40.0, "en", (segment,))


def test_a_word_is_emitted_at_the_end_of_the_chunk_of_its_source_word() -> None:
    (stream,) = sentence_trajectories([talk()], GERMAN)
    assert stream.units == ("x", "y", "z")
    assert stream.delays == pytest.approx((0.96, 3.0, 3.0))  # the last chunk ends with the sentence
    assert (stream.reference, stream.source_length) == ("x y z", 3.0)


def test_lengths_are_those_of_robust_segments() -> None:
    audio, characters, words = segment_lengths([talk()], GERMAN, seed=0)
    assert max(audio.values) <= 28.8
    assert (max(characters.values), max(words.values)) == (5, 3)
    assert [float(cell) for cell in words.cells()][-1] == 3


def test_the_command_prints_latency_lengths_and_examples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest.write(tmp_path / "tst.jsonl", [talk()])
    main(["data=aligned", f"data.folder={tmp_path}", "--examples", "1"])
    printed = capsys.readouterr().out
    # AL of x, y: 0.96 and 3 - 1, until the first word at the end of the source
    assert "1 sentences, en-de: LAAL of the trajectories 1480 ms" in printed
    assert "reference (words)" in printed
    assert "3.00 s  x y z" in printed


def test_segments_that_trainings_leave_out_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a preparation marks them, without word times and alignment."""
    whole = talk()
    unfit = replace(Segment(20.0, 2.0, "d", targets={"de": Target("w", ("w",))}), usable=False)
    marked = replace(whole, segments=(*whole.segments, unfit))
    manifest.write(tmp_path / "tst.jsonl", [marked])
    main(["data=aligned", f"data.folder={tmp_path}"])
    printed = capsys.readouterr().out
    assert "1 segments that trainings leave out have no trajectories" in printed
    assert "1 sentences, en-de: LAAL of the trajectories 1480 ms" in printed


def test_talks_without_alignment_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ZooError, match="no translated segments"):
        sentence_trajectories([], GERMAN)
    with pytest.raises(SystemExit):
        main(["data=aligned"])
    assert "data=aligned needs data.folder" in capsys.readouterr().err
