"""No loader runs the code in a checkpoint, and none asks whether it may."""

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fixtures import hostile
from zoo.backbones.architectures.speech_llm.released import read_checkpoint as read_released
from zoo.base.errors import ZooError
from zoo.config import build, compose
from zoo.extras.fbk_conformer.released import read_checkpoint as read_fairseq
from zoo.metrics.comet import score
from zoo.runs.run import run_id_of
from zoo.training.run import last_checkpoint
from zoo.training.writing import BackgroundWriter, read_file

CHOICES = {  # overrides that read a folder, and the type that its config.json claims
    "system=alignatt backbone=whisper backbone.name": "whisper",
    "system=alignatt backbone=speech_to_text backbone.name": "speech_to_text",
    "system=alignatt backbone=canary backbone.name": "canary",
    "system=alignatt backbone=voxtral_realtime target_language=en backbone.name": (
        "voxtral_realtime"
    ),
    "system=alignatt backbone=seamless_m4t backbone.name": "seamless_m4t",
    "system=alignatt backbone=seamless_m4t_v2 backbone.name": "seamless_m4t_v2",
    "system=alignatt backbone=fbk_conformer backbone.name": "fbk_conformer",
    "system=alignatt backbone=lst_minitalks backbone.name": "another",
    "system=simulu backbone.name": "seamless_m4t",
    "system=simulu synthesizer=seamless_tts synthesizer.name": "seamless_m4t",
    "system=streamuni backbone=phi4_multimodal backbone.name": "phi4_multimodal",
    "system=streamuni backbone=qwen2_5_omni backbone.name": "qwen2_5_omni",
    "system=doa backbone=qwen3_omni backbone.name": "qwen3_omni_moe",
    "system=streamuni backbone=cascade_minitalks backbone.name": "phi3",
    "system=streamuni backbone=cascade_minitalks backbone.transcriber.checkpoint": "another",
    "system=learned_wait backbone.name": "qwen2_5_omni",
    "system=infinisst backbone.checkpoint": "another",
    "system=infinisst backbone=infinisst backbone.decoder": "llama",
    "system=infinisst backbone.checkpoint=null backbone.tokenizer": "another",
}


@pytest.fixture(autouse=True)
def consent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 99))


def refused(load: Callable[[], object], folder: Path) -> None:
    """``load`` raises one sentence; nothing has run and nothing was asked."""
    with pytest.raises(ZooError) as raised:
        load()
    assert "\n" not in str(raised.value)
    assert not (folder / "ran").exists()
    assert sys.stdin.read(1) == "y"


@pytest.mark.parametrize("given", CHOICES)
def test_a_folder_with_code(given: str, tmp_path: Path) -> None:
    folder = hostile.write_folder(tmp_path / "model", CHOICES[given])

    def load() -> None:
        pair = ["source_language=de", "target_language=en"] if "whisper" in given else []
        cfg = compose("evaluate", [*pair, *f"{given}={folder}".split(" ")])
        system = build(cfg.system)
        system.configure_model()

    refused(load, folder)


@pytest.mark.parametrize("kind", ["another", "whisper", "wav2vec2", "hubert"])
def test_a_recogniser_with_code(kind: str, tmp_path: Path) -> None:
    folder = hostile.write_folder(tmp_path / "model", kind)

    def load() -> None:
        given = ["system=simulu", "recogniser=named", f"recogniser.name={folder}"]
        recogniser = build(compose("evaluate", given).evaluation).recogniser
        assert recogniser.unavailable_reason() is None
        recogniser.load(None)

    refused(load, folder)


def resumed(path: Path) -> None:
    """Resume the training whose last checkpoint is ``path``."""
    last = path.parent / "checkpoints" / "last.ckpt"
    last.parent.mkdir()
    path.rename(last)
    last_checkpoint(path.parent)


PICKLES: dict[str, Callable[[Path], object]] = {
    "FBK-fairseq": read_fairseq,
    "the authors' InfiniSST": read_released,
    "a training": lambda path: BackgroundWriter().load_checkpoint(path, weights_only=False),
    "the weights of a training": read_file,
    "a training that resumes": resumed,
    "the run of a checkpoint": run_id_of,
}


@pytest.mark.parametrize("archive", [True, False], ids=["archive", "old"])
@pytest.mark.parametrize("kind", PICKLES)
def test_a_pickle_with_code(kind: str, archive: bool, tmp_path: Path) -> None:
    path = hostile.write_pickle(tmp_path / "model.pt", archive=archive)
    hostile.check_runs(path)
    refused(lambda: PICKLES[kind](path), tmp_path)


@pytest.mark.parametrize("archive", [True, False], ids=["archive", "old"])
def test_a_comet_model_with_code(archive: bool, tmp_path: Path) -> None:
    path = hostile.write_pickle(tmp_path / "model.ckpt", archive=archive)
    with pytest.raises(score.BadModel, match="is refused"):
        score.read_checkpoint(path)
    assert not (tmp_path / "ran").exists()
