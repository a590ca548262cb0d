"""Synthesizers alone: error rates of the speech of reference texts."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from zoo.base.talks import Segment, Talk, Target
from zoo.data import manifest
from zoo.evaluation import synthesis
from zoo.evaluation.speech import SpeechModels


class Letters:
    """Transcribes a waveform of character codes, and replaces one word."""

    name, language = "letters", "de"

    def unavailable_reason(self) -> None:
        return None

    def load(self, device: torch.device | None = None) -> None:
        return None

    def transcribe(self, waves: Sequence[Tensor]) -> list[str]:
        texts = ["".join(chr(int(code)) for code in wave) for wave in waves]
        return [text.replace("drei", "zwei") for text in texts]


@pytest.fixture
def talks(tmp_path: Path) -> Path:
    texts = ("Eins, zwei.", "...", "Drei drei vier fünf!")
    segments = tuple(
        Segment(float(place), 1.0, "source", targets={"de": Target(text)})
        for place, text in enumerate(texts)
    )
    manifest.write(tmp_path / "tst.jsonl", [Talk("talk", Path("talk.wav"), 3.0, "en", segments)])
    return tmp_path


def test_the_command_prints_error_rates(
    talks: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def spoken(self: object, texts: Sequence[str], target: object) -> list[Tensor]:
        return [torch.tensor([float(ord(letter)) for letter in text]) for text in texts]

    monkeypatch.setattr("zoo.synthesizers.espeak.Espeak.synthesize_texts", spoken)
    monkeypatch.setattr(synthesis, "speech_models", lambda *given: SpeechModels({"de": Letters()}))
    synthesis.main(["synthesizer=espeak", "data=aligned", f"data.folder={talks}"])
    # "drei" is one of six words; "Drei" is not replaced
    assert "Espeak, German, 2 sentences: WER 16.67 %, CER 7." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["system=simulu"], "The synthesizer (SimulU) cannot speak a text alone"),
        ([], "The synthesizer (none) cannot speak a text alone"),
        (
            ["synthesizer=espeak", "target_language=es", "data=aligned"],
            "Choose recogniser=named and recogniser.name=",
        ),
    ],
)
def test_mistakes_are_one_sentence(
    given: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        synthesis.main(given)
    assert message in capsys.readouterr().err
