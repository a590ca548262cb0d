"""The objective leaves batches and losses to the backbone, and trains nothing else."""

import pytest

from zoo.backbones.common.speech_llm.prompt import LEAN
from zoo.backbones.common.wav2vec2.encoder import EncoderConfig
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.data.chain_of_thought import Thought
from zoo.data.talks import Talk
from zoo.errors import ZooError
from zoo.objectives.chain_of_thought import ChainOfThought

TALK = Talk("talk", None, 2.0, "en", ())


def test_it_takes_chains_of_thought_and_refuses_other_backbones() -> None:
    assert ChainOfThought.takes is Thought
    backbone = InfiniSST(encoder=EncoderConfig(), decoder={}, template=LEAN, tokenizer="none")
    with pytest.raises(
        ZooError, match="chain_of_thought objective trains speech chains of thought, not InfiniSST"
    ):
        ChainOfThought().prepare([TALK], backbone)
