"""Errors of the objective before the first batch."""

import pytest

from zoo.backbones.common.speech_llm.prompt import LEAN
from zoo.backbones.common.wav2vec2.encoder import EncoderConfig
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.backbones.infinisst.objective import Trajectories
from zoo.data.talks import Segment, Talk, Target
from zoo.errors import ZooError


def test_talks_without_word_times_are_refused_before_training() -> None:
    backbone = InfiniSST(encoder=EncoderConfig(), decoder={}, template=LEAN, tokenizer="none")
    talk = Talk(
        "talk", None, 1.0, "en", (Segment(0.0, 1.0, "hello", targets={"de": Target("hallo")}),)
    )
    with pytest.raises(ZooError, match="'hello' lacks word times or a word alignment"):
        Trajectories(source_language="en", target_language="de").prepare([talk], backbone)
