"""docs/one_chunk.py: its shapes are those of the grid in docs/one_chunk.md."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch

from zoo.backbones.text.tokenizer import train_tokenizer
from zoo.base.audio import files as audio
from zoo.base.errors import ZooError
from zoo.base.talks import Segment, Talk, Target, Word
from zoo.config import build, compose
from zoo.streaming.simulate import simulate
from zoo.streaming.sources import sources
from zoo.systems.base import StreamingSystem

SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "one_chunk.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("one_chunk", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Talk:
    """Five seconds of noise: steps of 1.92, 1.92 and 1.16 s."""
    path = tmp_path_factory.mktemp("talk") / "talk.wav"
    audio.write(path, 0.1 * torch.randn(80_000, generator=torch.Generator().manual_seed(0)))
    words = (Word("A", 0.5, 0.9), Word("house.", 2.0, 2.5))
    segment = Segment(0.5, 2.0, "A house.", words, {"de": Target("Ein Haus.")})
    return Talk("talk", path, 5.0, "en", (segment,))


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> StreamingSystem:
    """The small InfiniSST, randomly initialised, with a search that always generates words.

    Greedy, because the best beam would be empty; no id twice, because it would repeat one id,
    perhaps a mark.
    """
    folder = tmp_path_factory.mktemp("tokenizer")
    train_tokenizer(["Ein Haus."], vocabulary_size=300).save_pretrained(folder)
    torch.manual_seed(0)
    search = ["backbone.search.beams=1", "backbone.search.no_repeat_ngram=1"]
    cfg = compose("evaluate", ["backbone.checkpoint=null", f"backbone.tokenizer={folder}", *search])
    system: StreamingSystem = build(cfg.system)
    system.configure_model()
    return system.eval()


def test_the_table_has_the_grid(script: ModuleType, system: StreamingSystem, talk: Talk) -> None:
    number, lines = script.follow_step(system, talk, step=1)
    found = {station: value for station, _, value in lines}
    cfg = compose("evaluate").backbone
    channels, hidden = cfg.encoder.conv_channels[-1], cfg.encoder.hidden
    layers, heads, size = cfg.encoder.layers, cfg.encoder.heads, hidden // cfg.encoder.heads
    assert number == 1
    assert found["Talk.segments"] == "house."
    assert (found["SpeechChunk.samples"], found["Session.audio"]) == ("30720", "30720")
    assert found["FeatureExtractor"] == f"[1, {channels}, 96]"
    assert found["StreamingEncoder"] == f"[1, 96, {hidden}]"
    assert found["Adapter"] == f"[1, 24, {cfg.decoder.hidden_size}]"
    assert found["DialoguePrompt.turn"] == "27"
    assert found["EncoderState.cache"] == str([layers, 2, heads, 192, size])
    assert found["Emission.delay"] == "3.840"


def test_recording_leaves_the_system_unchanged(
    script: ModuleType, system: StreamingSystem, talk: Talk
) -> None:
    def text() -> str:
        return next(
            simulate(system, sources([talk], system.target_language, chunk_samples=30_720))
        ).text

    before = text()
    script.follow_step(system, talk, step=0)
    assert text() == before
    assert "decode" not in vars(system.backbone)
    assert not system.backbone.adapter._forward_hooks


def test_the_words_arrive_in_the_instance(
    script: ModuleType, system: StreamingSystem, talk: Talk
) -> None:
    [source] = sources([talk], system.target_language, chunk_samples=system.chunk_samples)
    [instance] = simulate(system, [source])
    number = instance.chunk_indices[0]
    found = {
        station: value
        for station, _, value in script.instance_lines(instance, system, talk, number)
    }
    mine = [
        unit
        for unit, chunk in zip(instance.units, instance.chunk_indices, strict=True)
        if chunk == number
    ]
    assert found["Instance.units"] == " ".join(mine)
    assert {"StreamLAAL", "RTF", "TimedSegment"} <= set(found)


def test_a_step_behind_the_end_is_refused(
    script: ModuleType, system: StreamingSystem, talk: Talk
) -> None:
    with pytest.raises(ZooError, match="no step 3"):
        script.follow_step(system, talk, step=3)
