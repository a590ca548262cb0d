"""The agreement that benchmarks/prepared.py computes, and the corpus that it prepares."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import soundfile

from zoo.data.readers.mustc import MustC
from zoo.data.talks import Segment, Talk, Target, Word

WORDS = tuple(Word(text, 0.5 * place, 0.5 * place + 0.4) for place, text in enumerate("abcd"))
TARGET = Target("A B C D", ("A", "B", "C", "D"), ((0,), (1,), (2,), (3,)))
SEGMENT = Segment(0.25, 2.5, "a b c d", WORDS, {"de": TARGET})


def talk(*segments: Segment) -> Talk:
    return Talk("t", None, 9.0, "en", segments)


def test_each_word_is_compared_by_its_chunk(script: ModuleType) -> None:
    # the words end at 0.4, 0.9, 1.4 and 1.9 s: in the chunks 0, 0, 1 and 1
    gold = talk(SEGMENT, SEGMENT)
    assert script.chunks_of(SEGMENT, "de") == [0, 0, 1, 1]
    later = replace(TARGET, alignment=((0,), (2,), (0,), (3,)))
    earlier = replace(TARGET, alignment=((0,), (1,), (1,), (3,)))
    found = script.agreement(
        [talk(*(replace(SEGMENT, targets={"de": one}) for one in (later, earlier)))], [gold], "de"
    )
    shares = {"same": 75.0, "earlier": 12.5, "as determined": 0.0, "later": 12.5, "left out": 0.0}
    assert found == shares
    lost = talk(SEGMENT, replace(SEGMENT, usable=False))
    assert script.agreement([lost], [gold], "de")["left out"] == 50.0
    assert script.agreement([], [gold], "de")["left out"] == 100.0


def test_a_word_that_waits_for_what_determines_it_is_counted_by_itself(script: ModuleType) -> None:
    # "B" translates "b" (0.9 s, chunk 0) and is determined by "b c" (1.4 s, chunk 1)
    gold = replace(TARGET, needs=((0,), (1, 2), (2,), (3,)))
    prepared = replace(TARGET, alignment=((0,), (1, 2), (2,), (3,)))
    talks = [talk(replace(SEGMENT, targets={"de": one})) for one in (prepared, gold)]
    found = script.agreement(talks[:1], talks[1:], "de")
    assert (found["same"], found["as determined"], found["later"]) == (75.0, 25.0, 0.0)


def test_the_form_of_mustc_has_times_and_texts_of_sentences(
    script: ModuleType, tmp_path: Path
) -> None:
    path = tmp_path / "t.wav"
    soundfile.write(path, [0.1] * 9 * 16000, 16000)
    gold = replace(talk(SEGMENT), audio=path)
    for _ in range(2):  # a preparation that is continued writes it again
        script.write_mustc(tmp_path / "mustc", "dev", [gold], "de")
    corpus = MustC(root=str(tmp_path / "mustc"), source_language="en", target_language="de")
    [found] = corpus.talks("dev")
    expected = replace(SEGMENT, words=(), targets={"de": Target("A B C D")})
    assert (found.name, found.segments) == ("t", (expected,))
