"""The recogniser's own errors, on texts and a recogniser of which they are known."""

from collections.abc import Sequence
from types import ModuleType

import pytest
import torch
from torch import Tensor

from zoo.backbones.base import Voiced
from zoo.languages import Language, language


class Deaf:
    """Understands the first of two sentences in part, and nothing in noise."""

    name = "deaf"
    language = "de"

    def __init__(self) -> None:
        self.heard: list[list[Tensor]] = []

    def missing(self) -> None:
        return

    def load(self, device: torch.device | None = None) -> None:
        return

    def transcribe(self, waves: Sequence[Tensor]) -> list[str]:
        self.heard.append(list(waves))
        return ["das Maus", "die Frau"] if len(self.heard) == 1 else ["", ""]


class Echo:
    """Speaks 20 samples per unit; everything sounds like unit 7."""

    class codebook:
        encode = staticmethod(lambda samples: torch.full((len(samples) // 320,), 7))

    @staticmethod
    def vocode(units: Sequence[Tensor], target: Language) -> list[Voiced]:
        assert all(unit.unique().tolist() == [7] for unit in units)
        return [Voiced(torch.ones(20 * len(unit)), torch.ones(len(unit))) for unit in units]


def test_errors_by_form(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "heard", lambda name, lines: [name, [one.words for one in lines]])
    deaf = Deaf()
    found = script.measured(deaf, ["Das Haus.", "Die Frau?"], language("de"))
    assert list(found) == ["clean", "shuffled words", "unseen voice", "noise"]
    assert found["clean"] == {"WER": 25.0, "CER": round(100 / 16, 2)}
    assert found["noise"] == {"WER": 100.0, "CER": 100.0}
    assert [form for form, _ in deaf.heard] == list(found)


def test_a_vocoder_says_the_units_of_clean_speech(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        script,
        "heard",
        lambda name, lines: [torch.full((320 * len(one.words),), 1.0) for one in lines],
    )
    deaf = Deaf()
    found = script.measured(deaf, ["Das Haus.", "Die alte Frau?"], language("de"), Echo())
    assert list(found)[-1] == "unit vocoder"
    assert [len(wave) for wave in deaf.heard[-1]] == [
        20,
        20,
    ]  # one unit each, however long it lasts


def test_how_texts_are_spoken(script: ModuleType) -> None:
    texts = ["Das Haus ist sehr alt und steht noch."]
    forms = {name: lines[0] for name, lines in script.forms(texts, language("de")).items()}
    assert forms["clean"].voice == "de"
    assert forms["unseen voice"].voice == "de+f3"
    assert sorted(forms["shuffled words"].words) == sorted(forms["clean"].words)
    assert forms["shuffled words"].words != forms["clean"].words


def test_noise_is_fifteen_decibels_below(script: ModuleType) -> None:
    lines = script.forms(["Das Haus ist alt."], language("de"))["clean"]
    [clean], [noisy] = script.heard("clean", lines), script.heard("noise", lines)
    ratio = 10 * float(torch.log10(clean.square().mean() / (noisy - clean).square().mean()))
    assert ratio == pytest.approx(15.0, abs=0.2)
