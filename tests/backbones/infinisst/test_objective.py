"""Errors of the objective before the first batch."""

import dataclasses
from collections.abc import Callable

import pytest

from zoo.backbones.common.speech_llm.prompt import LEAN
from zoo.backbones.common.wav2vec2.encoder import EncoderConfig
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.backbones.infinisst.objective import Trajectories
from zoo.data.robust_segments import RobustSegmentConfig
from zoo.data.sampling import Stretches
from zoo.data.talks import Segment, Talk, Target
from zoo.errors import ZooError
from zoo.languages import language


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
