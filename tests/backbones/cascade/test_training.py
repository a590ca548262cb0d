"""Training examples of the translator: transcript and prefix in the prompt, the rest as labels."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import yaml

from tests.backbones.cascade.conftest import SHAPE, TRANSLATORS, Make
from tests.fixtures.descent import assert_descends, trainable
from zoo.backbones.cascade.cascade import Cascade
from zoo.backbones.cascade.data import CascadeCollator
from zoo.backbones.decoding.teacher_forcing import IGNORED
from zoo.backbones.pretrained.lora import LoraConfig
from zoo.base.languages import language
from zoo.base.talks import Talk
from zoo.data.excerpts import Excerpt, ExcerptConfig
from zoo.training.export import Selected, export
from zoo.training.objectives.teacher_forcing import TeacherForced, TeacherForcing

SOURCE = ("Julia", "spent", "the", "money.")
TARGET = ("Julia", "hat", "das", "Geld", "ausgegeben.")


def excerpts(count: int, given: int = 0) -> list[Excerpt]:
    """The same sentence, from other moments of a talk."""
    talk = Talk(name="talk", audio=None, duration=60.0, source_language="en", segments=())
    times = [place / 8 for place in range(count)]
    return [
        Excerpt(talk, start, start + 2, SOURCE, TARGET, language("de"), given) for start in times
    ]


def turns(backbone: Cascade, pieces: Sequence[Excerpt]) -> list[tuple[str, str]]:
    """The whole text and the labelled text of each row."""
    batch = backbone.collator()(pieces)
    found = []
    for ids, labels in zip(batch.input_ids, batch.labels, strict=True):
        labelled = labels != IGNORED
        assert torch.equal(ids[labelled], labels[labelled])
        last = int(labelled.nonzero().max())
        assert bool((ids[last:] == backbone.prompt.end).all())
        text, labelled_text = (
            str(backbone.tokenizer.decode(some)) for some in (ids[: last + 1], ids[labelled])
        )
        found.append((text, labelled_text.lstrip()))
    return found


def test_the_loss_is_on_the_translation_quoted_or_left(make: Make) -> None:
    rows = turns(make(), excerpts(40))
    assert set(rows) == {
        (
            (
                "<|user|>Translate the English text to German "
                "based on the given German translation. "
                "English text: "
                f"Julia spent the money.. German translation: {' '.join(TARGET[:given])}"
                "<|end|><|assistant|>"
                f"{' '.join(TARGET[given:])}<|end|>"
            ),
            f"{' '.join(TARGET[:given])}{' '.join(TARGET[given:])}<|end|>",
        )
        for given in range(len(TARGET) + 1)
    }


def test_forced_words_have_no_label(make: Make) -> None:
    rows = turns(make(prefix_place="both"), excerpts(40))
    prefixes = [
        text.partition("German translation: ")[2].partition("<|end|>")[0] for text, _ in rows
    ]
    assert set(prefixes) == {" ".join(TARGET[:given]) for given in range(len(TARGET) + 1)}
    for (text, labelled), given in zip(rows, prefixes, strict=True):
        assert text.endswith(f"<|assistant|>{' '.join(TARGET)}<|end|>")
        assert f"{given} {labelled}".strip() in (
            f"{' '.join(TARGET)}<|end|>",
            f"{' '.join(TARGET)} <|end|>",
        )


@pytest.mark.parametrize("prefix_place", ["prompt", "both"])
def test_forced_words_are_in_the_prompt_without_labels(prefix_place: str, make: Make) -> None:
    rows = turns(make(prefix_place=prefix_place), excerpts(20, given=2))
    assert all("German translation: Julia hat" in text for text, _ in rows)
    assert not any("Julia" in labelled for _, labelled in rows)


@pytest.mark.parametrize(("plain", "shares"), [(0.0, {0}), (1.0, {40}), (0.5, set(range(10, 31)))])
def test_some_transcripts_have_no_case_and_punctuation(
    plain: float, shares: set[int], make: Make
) -> None:
    rows = turns(make(plain=plain), excerpts(40))
    assert (
        sum("English text: julia spent the money. German" in prompt for prompt, _ in rows) in shares
    )


def test_batches_follow_from_the_excerpts(make: Make) -> None:
    backbone = make(plain=0.5)
    one, other = (CascadeCollator(backbone.prompt, 0.5)(excerpts(8)) for _ in range(2))
    assert torch.equal(one.input_ids, other.input_ids)
    assert torch.equal(one.labels, other.labels)


def test_forward_is_what_decode_runs(make: Make) -> None:
    backbone = make(plain=1.0)
    batch = backbone.collator()(excerpts(5))
    losses = []
    for ids, labels in zip(batch.input_ids, batch.labels, strict=True):
        scores = backbone.translator(input_ids=ids[None]).logits[0].log_softmax(dim=-1)
        losses += [
            -scores[place - 1, label]
            for place, label in enumerate(labels.tolist())
            if label != IGNORED
        ]
    losses_of_batch = backbone(batch)
    assert losses_of_batch["loss"].item() == pytest.approx(
        torch.stack(losses).mean().item(), abs=1e-9
    )
    assert 0 <= losses_of_batch["token_accuracy"].item() <= 1


def test_the_loss_falls_along_its_gradient(make: Make) -> None:
    backbone = make(plain=1.0)
    assert isinstance(backbone, TeacherForced)
    backbone.trainable(["translator"])
    objective = TeacherForcing(sampling=ExcerptConfig())
    objective.prepare([], backbone)
    batch = objective.batch(excerpts(6))
    parameters = trainable(backbone.translator)
    moved = assert_descends(lambda: objective.losses(backbone, batch), "loss", parameters)
    assert moved == set(parameters)


@pytest.mark.parametrize("kind", ["phi3", "gemma3_text", "qwen3_moe"])
def test_an_adapter_is_trained_alone_and_merged_or_written(
    kind: str, make: Make, tmp_path: Path
) -> None:
    config = {"model_type": kind, **SHAPE, **TRANSLATORS.get(kind, {})}
    plain = make(config=config, end_scale=1.0)
    backbone = make(config=config, end_scale=1.0, lora=LoraConfig(rank=2, alpha=4, dropout=0.0))
    batch = backbone.collator()(excerpts(5))
    before = backbone(batch)["loss"].item()
    assert before == pytest.approx(plain(batch)["loss"].item(), abs=1e-9)  # the update begins as 0

    backbone.trainable(["lora"])
    parameters = trainable(backbone.translator)
    assert parameters
    assert all(".lora_" in name for name in parameters)
    with torch.no_grad():
        for parameter in parameters.values():
            parameter += 0.1
    after = backbone(batch)["loss"].item()
    assert after != pytest.approx(before, abs=1e-6)
    for save in ("merged", "adapter"):
        backbone.lora = LoraConfig(rank=2, alpha=4, dropout=0.0, save=save)
        backbone.save(tmp_path / save)
        again = make(name=str(tmp_path / save), tokenizer=None)
        assert again(batch)["loss"].item() == pytest.approx(after, abs=1e-9)


def test_an_export_names_no_transcriber_of_this_machine(make: Make, tmp_path: Path) -> None:
    backbone = make()
    system: Any = SimpleNamespace(
        name="streamuni",
        backbone=backbone,
        policy=None,
        history=None,
        knob=None,
        source_language=language("en"),
        target_language=language("de"),
    )
    settings = {
        "name": None,
        "tokenizer": "/here",
        "transcriber": {"checkpoint": "/there", "block_chunks": 4},
    }
    config = {
        "backbone": settings,
        "training": {},
        "source_language": "en",
        "target_language": "de",
        "seed": 0,
    }
    folder = export(
        system,
        tmp_path,
        selected=Selected(step=0),
        config=config,
        corpus="",
        training_overrides=[],
        evaluation_overrides=[],
        dtype="bfloat16",
    )
    described = yaml.safe_load((folder / "config.yaml").read_text())["backbone"]
    assert described["transcriber"] == {"checkpoint": None, "block_chunks": 4}
    assert not {"/here", "/there"} & set((folder / "config.yaml").read_text().split())
    again = make(name=str(folder), tokenizer=None, dtype="float32")
    for name, weight in backbone.translator.named_parameters():
        assert torch.equal(
            weight.to(torch.bfloat16), again.translator.get_parameter(name).to(torch.bfloat16)
        )
