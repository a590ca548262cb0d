"""Errors of the objective before the first batch."""

import dataclasses
from collections.abc import Callable

import pytest

from zoo.backbones.architectures.speech_llm.prompt import LEAN
from zoo.backbones.encoders.wav2vec2.encoder import EncoderConfig
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.backbones.infinisst.objective import Trajectories
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.talks import Segment, Share, Talk, Target, Word
from zoo.data.mixture import MixedSampler
from zoo.data.robust_segments import RobustSegmentConfig
from zoo.data.sampling import Stretches


def test_talks_without_word_times_are_refused_before_training() -> None:
    backbone = InfiniSST(encoder=EncoderConfig(), decoder={}, template=LEAN, tokenizer="none")
    talk = Talk(
        "talk", None, 1.0, "en", (Segment(0.0, 1.0, "hello", targets={"de": Target("hallo")}),)
    )
    with pytest.raises(ZooError, match="'hello' lacks word times or a word alignment"):
        Trajectories(source_language="en", target_language="de").prepare([talk], backbone)


def test_a_multiplier_without_a_latency_token_is_refused_before_training(
    make: Callable[..., InfiniSST],
) -> None:
    backbone = make(
        template=dataclasses.replace(LEAN, instruction="{latency}", latency="{multiplier}")
    )
    talk = Talk("talk", None, 1.0, "en", (Segment(0.0, 1.0, "", targets={"de": Target("")}),))
    sampler = RobustSegmentConfig().sampler(
        [talk],
        target=language("de"),
        chunk_seconds=0.96,
        stretches=Stretches(chunks=[12], multipliers=[1, 10]),
    )
    objective = Trajectories(source_language="en", target_language="de")
    with pytest.raises(ZooError, match="no latency token for m = 10"):
        objective.prepare([], backbone, [sampler])


def shares(*directions: tuple[str, str]) -> tuple[list[Talk], MixedSampler]:
    """Talks of shares of a mixture in these directions, and their sampler."""
    talks = []
    for number, (source, target) in enumerate(directions):
        words, hello = (Word("hello", 0.0, 0.5),), Target("hallo", ("hallo",), ((0,),))
        segment = Segment(0.0, 1.0, "hello", words, {target: hello})
        share = Share(f"entry{number}", target, {"all": 1.0})
        talks.append(Talk(f"talk{number}", None, 1.0, source, (segment,), share=share))
    samplers = [
        RobustSegmentConfig().sampler([talk], target=language("de"), chunk_seconds=0.96)
        for talk in talks
    ]
    return talks, MixedSampler(samplers, [1.0] * len(talks))


def test_several_corpora_of_one_direction_are_trained_on(make: Callable[..., InfiniSST]) -> None:
    talks, sampler = shares(("en", "de"), ("en", "de"))
    Trajectories(source_language="en", target_language="de").prepare(talks, make(), [sampler])
    assert sampler.parts[0] is not sampler.parts[1]


@pytest.mark.parametrize("other", [("en", "es"), ("fr", "de")])
def test_shares_in_another_direction_are_refused(
    make: Callable[..., InfiniSST], other: tuple[str, str]
) -> None:
    talks, sampler = shares(("en", "de"), other)
    objective = Trajectories(source_language="en", target_language="de")
    message = (
        r"^InfiniSST is trained in one direction, English to German; data\.entries\.entry1 has"
    )
    with pytest.raises(ZooError, match=message):
        objective.prepare(talks, make(), [sampler])
