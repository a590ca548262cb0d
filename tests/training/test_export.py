"""The card of an exported model has its training and the command that evaluates it."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch import nn

from zoo.backbones.base import Backbone
from zoo.backbones.ctc.ctc import CTC
from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.base.languages import language
from zoo.report.card import Card
from zoo.training.export import Selected, card

SIMULTANEOUS = ["speech-translation", "simultaneous-translation"]


class Linear(Backbone):
    """A backbone of 10 000 weights."""

    weights_key = "checkpoint"
    decode = text = None  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(100, 100)


def card_of(backbone: Backbone | None = None, **given: Any) -> str:
    """The text of a card, without its front matter."""
    return export_card(backbone, **given).text(Path("export")).split("---\n\n")[1]


def export_card(backbone: Backbone | None = None, **given: Any) -> Card:
    """The card of a linear layer from English to Spanish."""
    backbone = backbone or Linear()
    system: Any = SimpleNamespace(
        name="infinisst",
        backbone=backbone,
        source_language=language("en"),
        target_language=language("es"),
    )
    options = {
        "selected": Selected(step=400),
        "corpus": "minitalks",
        "training_overrides": ["seed=1", "target_language=es"],
        "evaluation_overrides": ["target_language=es"],
        "dtype": "bfloat16",
    }
    return card(system, **{**options, **given})


def test_the_card_repeats_what_an_evaluation_needs() -> None:
    text = card_of()
    assert text.startswith("# infinisst, English to Spanish\n\n0.01 M parameters, bfloat16.")
    assert "    python train.py seed=1 target_language=es\n" in text
    assert "`python evaluate.py target_language=es backbone.checkpoint=<this folder>`" in text
    assert "`python evaluate.py backbone.checkpoint=<this folder>`" in card_of(
        evaluation_overrides=[]
    )


def test_the_card_distinguishes_synthetic_speech_from_a_users_corpus() -> None:
    assert "built-in corpus minitalks: synthetic speech" in card_of()
    assert "\n\non mine. Evaluate it" in card_of(corpus="mine")
    assert "synthetic" not in card_of(corpus="mine")


def test_the_card_of_a_mixture_names_its_directions() -> None:
    directions = [(language("en"), language(code)) for code in ("de", "zh")]
    title = card_of(corpus="mixture", directions=directions).splitlines()[0]
    assert title == "# infinisst, English to German, English to Chinese"


def test_a_recogniser_is_measured_on_target_speech() -> None:
    text = card_of(backbone=CTC(name=None))
    command = "python evaluate.py system=wait_k synthesizer=espeak recogniser.name=<this folder>"
    assert f"`{command}`" in text


@pytest.mark.parametrize(
    ("backbone", "task", "tags"),
    [
        (Linear, "automatic-speech-recognition", SIMULTANEOUS),
        (lambda: CTC(name=None), "automatic-speech-recognition", ["speech-recognition"]),
        (lambda: SeamlessM4TSpeech(name="a/b"), "audio-to-audio", SIMULTANEOUS),
    ],
)
def test_the_front_matter_is_that_of_the_hub(
    backbone: Callable[[], Backbone], task: str, tags: list[str]
) -> None:
    """Without a licence, which depends on the corpus and on pretrained weights."""
    assert export_card(backbone(), corpus="mustc").metadata == {
        "language": ["en", "es"],
        "library_name": "simulzoo",
        "pipeline_tag": task,
        "tags": tags,
        "datasets": ["mustc"],
    }
