"""Which attention heads point to the source words."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from zoo.base.languages import language
from zoo.base.talks import Segment, Talk, Target, Word
from zoo.base.types import Hypothesis
from zoo.data import manifest
from zoo.evaluation.alignment_heads import Found, Sentence, distances, main, source_spans

WORDS = (Word("a", 0.0, 0.5), Word("b", 1.0, 1.5), Word("c", 2.4, 3.0))
SEGMENT = Segment(0.0, 3.0, "a b c", words=WORDS)


def pointing(frames: list[list[int]]) -> Tensor:
    """(tokens, groups, 10 frames) weights with the largest one at these frames."""
    return torch.nn.functional.one_hot(torch.tensor(frames), 10).float()


def test_a_unit_is_compared_with_the_last_source_word_that_it_translates() -> None:
    german = Target("x y z", ("x", "y", "z"), ((0, 2), (), (1,)))
    spans = source_spans(replace(SEGMENT, targets={"de": german}), language("de"))
    assert spans == ((2.4, 3.0), None, (1.0, 1.5))
    chinese = Target("甲乙丙", ("甲乙", "丙"), ((1,), (0,)))
    spans = source_spans(replace(SEGMENT, targets={"zh": chinese}), language("zh"))
    assert spans == ((1.0, 1.5), (1.0, 1.5), (0.0, 0.5))


def test_distances_are_zero_at_the_word_and_negative_before_it() -> None:
    # two words of two and one tokens, three groups of heads, frames of 0.4 s
    sentence = Sentence(
        talk=Talk("talk", None, 4.0, "en", (SEGMENT,)),
        token_ids=torch.tensor([5, 6, 7]),
        spans=((1.0, 1.5), None),
    )
    hypothesis = Hypothesis(
        token_ids=torch.tensor([8]),
        word_starts=torch.tensor([True, False, True, True]),
        prefix_length=3,
        finished=False,
        alignment=pointing([[3, 0, 3], [2, 1, 5], [9, 9, 9], [0, 0, 0]]),
    )
    # the later token points to 1.4, 0.6 and 2.2 s; the word and the tolerance are 0.8 to 1.7 s
    [found] = distances(hypothesis, sentence, 0.4).tolist()
    assert found == pytest.approx([0.0, -0.2, 0.5])
    other = replace(hypothesis, word_starts=torch.tensor([True, True, True, True]))
    assert distances(other, sentence, 0.4).shape == (0, 3)


def test_the_shares_are_of_all_units() -> None:
    found = Found(((1, 0), (2, 3)), [0.0, -0.3, 0.0, 0.5])
    assert found.cells() == ["1.0 2.3", "50.0", "25.0", "25.0", "0.40"]
    assert Found(((1, 0),), [0.0]).cells() == ["1.0", "100.0", "0.0", "0.0", "–"]


def test_the_configured_head_is_one_of_all_heads(capsys: pytest.CaptureFixture[str]) -> None:
    head = "backbone.alignment.heads=[[1,0]]"
    main(["system=streamatt", head, "evaluation.split=dev", "evaluation.talks=1"])
    printed = capsys.readouterr().out
    rows = [line.split() for line in printed.splitlines() if len(line.split()) == 5]
    single = [row for row in rows if row[0].count(".") == 1]
    configured, *each = single
    assert configured[0] == "1.0"
    assert configured in each  # one head alone, and as one of all
    shares = {row[0]: float(row[1]) for row in each}
    assert set(shares) == {f"{layer}.{head}" for layer in range(3) for head in range(4)}
    assert shares["1.0"] > shares["0.1"] + 20  # the first layer does not align
    assert "'backbone.alignment.heads=[[" in printed


def test_a_corpus_without_word_times_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = Segment(0.0, 3.0, "a b c", targets={"de": Target("x y z")})
    manifest.write(tmp_path / "tst.jsonl", [Talk("talk", Path("talk.wav"), 3.0, "en", (plain,))])
    with pytest.raises(SystemExit) as left:
        main(["system=streamatt", "data=aligned", f"data.folder={tmp_path}"])
    assert left.value.code == 2
    error = capsys.readouterr().err
    assert "No sentence of the corpus has word times and an alignment with German" in error
