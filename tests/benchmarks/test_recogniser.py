"""The recogniser's own errors, on texts and a recogniser of which they are known."""

from collections.abc import Sequence
from types import ModuleType

import pytest
import torch
from torch import Tensor

from zoo.languages import language


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


def test_errors_by_form(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "heard", lambda name, lines: [name, [one.words for one in lines]])
    deaf = Deaf()
    found = script.measured(deaf, ["Das Haus.", "Die Frau?"], language("de"))
    assert list(found) == ["clean", "shuffled words", "unseen voice", "noise"]
    assert found["clean"] == {"WER": 25.0, "CER": round(100 / 16, 2)}
    assert found["noise"] == {"WER": 100.0, "CER": 100.0}
    assert [form for form, _ in deaf.heard] == list(found)


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
