"""Incompatible options are refused before weights are read."""

from pathlib import Path

import pytest
from transformers import AutoTokenizer

from tests.backbones.cascade.conftest import SHAPE, LoudnessTranscriber, Make, TimingTranscriber
from tests.test_matrix import choices
from zoo.backbones.cascade.cascade import Cascade
from zoo.backbones.cascade.prompt import PrefixPlace, Template
from zoo.backbones.cascade.transcriber import NEEDED
from zoo.backbones.families import families_exposing
from zoo.base.errors import ZooError
from zoo.base.types import Capability
from zoo.config import build, compose
from zoo.history.keep_all import KeepAll
from zoo.policies.alignatt import AlignAtt
from zoo.systems.binding import bind


def test_a_backbone_without_transcripts_is_refused_with_choices() -> None:
    given = [
        "system=local_agreement",
        "backbone=cascade",
        "backbone@backbone.transcriber=speech_to_text",
    ]
    with pytest.raises(
        ZooError,
        match=r"^SpeechToText cannot .* does not expose transcript; "
        r".* of a family that does: canary, chat_server, ctc, ",
    ):
        build(compose("evaluate", given).system)


def test_the_choices_are_all_that_transcribe() -> None:
    fitting = {
        kind.__module__.split(".")[2]
        for kind in choices("backbone").values()
        if kind.exposes >= NEEDED
    }
    assert set(families_exposing(NEEDED)) == fitting


def test_languages_of_the_transcriber_are_checked() -> None:
    given = ["system=local_agreement", "backbone=cascade", "target_language=zh"]
    canary = [*given, "backbone@backbone.transcriber=canary"]
    build(compose("evaluate", canary).system)  # it transcribes English
    with pytest.raises(ZooError, match=r"^Canary does not support Japanese"):
        build(compose("evaluate", [*canary, "source_language=ja"]).system)


@pytest.mark.parametrize(
    ("transcriber", "prefix_place", "reason"),
    [
        (LoudnessTranscriber, "answer", "with the transcriber LoudnessTranscriber, which does not"),
        (
            TimingTranscriber,
            "prompt",
            r"with backbone\.prefix_place=prompt, but with answer and both",
        ),
    ],
)
def test_why_there_is_no_alignment(
    transcriber: type[LoudnessTranscriber], prefix_place: PrefixPlace, reason: str
) -> None:
    backbone = Cascade(transcriber=transcriber(), name="somewhere", prefix_place=prefix_place)
    with pytest.raises(ZooError, match=f"which backbone Cascade does not expose {reason}"):
        bind(backbone, AlignAtt(frames=1), KeepAll())
    assert Capability.ALIGNMENT in Cascade.exposes


@pytest.mark.parametrize("prefix_place", ["answer", "both"])
def test_a_cascade_with_a_transcriber_that_aligns_fits_alignatt(prefix_place: PrefixPlace) -> None:
    backbone = Cascade(transcriber=TimingTranscriber(), name="here", prefix_place=prefix_place)
    assert bind(backbone, AlignAtt(frames=1), KeepAll()) == {
        Capability.ALIGNMENT,
        Capability.PREFIX,
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_tokens": 0}, "max_tokens of at least 1"),
        ({"plain": 1.5}, "plain from 0 to 1"),
        ({"prefix_place": "twice"}, "choose one of: prompt, answer, both"),
        ({"transcriber_target": "both"}, "choose one of: source, target"),
        (
            {"template": Template(instruction="{transcript}")},
            r"goes with backbone\.prefix_place=answer",
        ),
        ({"name": None}, "needs a tokenizer"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, object], message: str) -> None:
    with pytest.raises(ZooError, match=message):
        Cascade(**({"transcriber": LoudnessTranscriber(), "name": ("somewhere")} | options))  # type: ignore[arg-type]


def test_another_kind_of_model_is_refused(make: Make, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "whisper"}')
    with pytest.raises(
        ZooError, match=r"is a 'whisper' by its config\.json; as translator it must be a 'phi3' or"
    ):
        make(name=str(tmp_path))
    with pytest.raises(ZooError, match=r"one of: phi3, llama, mistral, .*; not gpt2"):
        make(config={"model_type": "gpt2"})


def test_a_tokenizer_with_more_tokens_than_scores_is_refused(
    make: Make, tokenizer_folder: Path
) -> None:
    size = len(AutoTokenizer.from_pretrained(tokenizer_folder))
    with pytest.raises(ZooError, match=f"{size} tokens, but {size - 1} scores"):
        make(config={"model_type": "phi3", **SHAPE, "vocab_size": size - 1})
