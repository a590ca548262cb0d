"""Re-translation of bad references: the limits, the old text, and a preparation with a network."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.apps.prepare.conftest import segment
from tests.apps.prepare.test_prefixes import ENGLISH, GERMAN, chain, model
from zoo.apps.prepare.items import Notes, new_item
from zoo.apps.prepare.job import prepare
from zoo.apps.prepare.settings import STEPS, in_order
from zoo.apps.prepare.steps.filters import Filters, FiltersStep
from zoo.apps.prepare.steps.retranslation import RetranslationStep
from zoo.apps.prepare.translators.causal_lm import FrequencyPenalty
from zoo.apps.prepare.translators.retranslation import Retranslation
from zoo.backbones.text.tokenizer import train_tokenizer
from zoo.base.errors import ZooError
from zoo.base.talks import Segment, Talk, Target
from zoo.config import compose
from zoo.data.corpora import Aligned

__all__ = ["model"]  # a fixture: the last letter of a text decides its translation, X, Y or Z
ALL = ("recognition", "estimation", "retranslation")


def step_of(model: Path, **limits: float | None) -> RetranslationStep:
    translator = Retranslation(name=str(model), prompt="{transcript}", max_tokens=3, **limits)
    step = RetranslationStep(translator, ALL)
    step.check()
    step.load()
    return step


def test_badly_translated_segments_that_were_spoken_as_written_get_a_translation(
    model: Path,
) -> None:
    spoken = [segment(2.0 * number, "Good cats", "Gute Katzen") for number in range(6)]
    sound = Segment(12.0, 0.5, "(birds", (), {"de": Target("(Vögel")})
    scores = {
        "bad": {"WER": 40.0, "estimate de": 0.5},
        "good": {"WER": 0.0, "estimate de": 0.51},
        "other words": {"WER": 41.0, "estimate de": 0.1},
        "not recognised": {"estimate de": 0.1},
        "unusable": {"WER": 0.0, "estimate de": 0.1},
        "other language": {"WER": 0.0, "estimate es": 0.1},
        "sound": {},
    }
    notes = [Notes("tags" if name == "unusable" else "", "", one) for name, one in scores.items()]
    talk = Talk("t", Path("t.wav"), 13.0, "en", (*spoken, sound))
    [found] = step_of(model)([replace(new_item(talk), notes=tuple(notes))])
    assert found.talk.segments[0].targets == {"de": Target("Y", original="Gute Katzen")}
    assert found.talk.segments[0].words == spoken[0].words
    assert found.talk.segments[1:] == talk.segments[1:]
    assert found.notes[0].scores == {"WER": 40.0, "corpus estimate de": 0.5}
    assert found.notes[1:] == tuple(notes[1:])
    [kept] = FiltersStep(Filters(min_estimate=0.5))([found])
    assert [note.reason for note in kept.notes[:3]] == ["", "", "estimated quality"]


def test_without_limits_all_are_replaced_except_what_the_model_does_not_complete(
    model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    never = segment(2.0, "Nothing ending", "Nichts endet")
    talk = Talk("t", Path("t.wav"), 6.0, "en", (segment(0.0, "Good", "Gut"), never))
    step = step_of(model, max_estimate=None, max_wer=None)
    [found] = step([new_item(talk)])
    assert [one.targets["de"].original for one in found.talk.segments] == ["Gut", None]
    assert found.talk.segments[1] == never
    assert "1 translations are not complete and stay as they are" in caplog.text
    [again] = step([found])
    assert again.talk.segments[0].targets["de"] == Target("X", original="Gut")


def test_a_plain_prompt_is_continued_to_the_end_of_its_line(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(["a"], vocabulary_size=270)  # without a chat template
    network = chain(tokenizer)
    line_break, answer = tokenizer("\n").input_ids[-1], tokenizer.convert_tokens_to_ids("X")
    with torch.no_grad():
        network.lm_head.weight[:, answer] = 0.0
        network.lm_head.weight[line_break, answer] = 1.0  # X, a line break, a line break ...
    tokenizer.save_pretrained(tmp_path)
    network.save_pretrained(tmp_path)
    prompt = "{source}: {transcript}"
    with pytest.raises(ZooError, match=r"no chat template; retranslation\.name must be .*chat=fal"):
        Retranslation(name=str(tmp_path), prompt=prompt).check()
    translator = Retranslation(name=str(tmp_path), prompt=prompt, chat=False, max_tokens=9)
    translator.check()
    translator.load()
    texts = ["Good", "ending", "cats"]
    assert translator.translate(texts, source=ENGLISH, target=GERMAN) == ["X", None, "Y"]


def test_a_score_loses_the_penalty_for_each_time_the_answer_has_the_token() -> None:
    scores = FrequencyPenalty(0.25, prompt_tokens=2)(
        torch.tensor([[0, 0, 1, 1, 2], [3, 3, 0, 3, 3]]), torch.ones(2, 4)
    )
    assert scores.tolist() == [[1.0, 0.5, 0.75, 1.0], [0.75, 1.0, 1.0, 0.5]]


def test_what_is_measured_for_it_precedes_it_and_is_required(model: Path) -> None:
    assert in_order(STEPS)[2:6] == [*ALL, "prefixes"]
    others = [name for name in STEPS if name != "retranslation"]
    assert in_order(others) == others
    translator = Retranslation(name=str(model))
    for missing, key in (("estimation", "max_estimate"), ("recognition", "max_wer")):
        steps = [name for name in ALL if name != missing]
        with pytest.raises(ZooError, match=f"needs the step {missing}, or retranslation.{key}=nul"):
            RetranslationStep(translator, steps).check()
    with pytest.raises(ZooError, match="The step retranslation needs name, the hub id or folder"):
        RetranslationStep(Retranslation(name=None), ALL).check()


def test_a_preparation_counts_them_and_keeps_the_old_text(
    model: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    overrides = [
        "data=aligned",
        f"data.folder={corpus}",
        f"prepare.folder={tmp_path / 'out'}",
        "prepare.splits=[train]",
        "device=cpu",
        "logger.mode=disabled",
        "steps=[words,retranslation,filters]",
        f"retranslation.name={model}",
        "retranslation.prompt='{transcript} {source}s'",
        "retranslation.max_tokens=3",
        "retranslation.max_estimate=null",
        "retranslation.max_wer=null",
    ]
    prepare(compose("prepare", overrides))
    talks = Aligned(folder=str(tmp_path / "out")).talks("train")
    found = [one.targets["de"] for one in talks[0].segments]
    assert [(one.text, one.original) for one in found] == [
        ("Y", "Gute Katzen schlafen."),
        ("(Gelächter)", None),
        ("Y", "Eins, zwei."),
    ]
    assert ", 8 translations replaced" in capsys.readouterr().out
