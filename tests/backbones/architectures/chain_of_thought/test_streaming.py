"""Whole talks under StreamUni's policy: fast and plain form, batch and single talks are equal."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from tests.fixtures.seeds import assert_until
from tests.fixtures.streams import new_system
from zoo.backbones.architectures.chain_of_thought.chain_of_thought import ChainOfThought
from zoo.base.types import Instance
from zoo.policies.transcript_wait_k import TranscriptWaitK
from zoo.streaming.simulate import Source, simulate

TALKS = (3.1, 5.0, 4.2)


def streamed(backbone: ChainOfThought, talks: Sequence[Tensor], batch: int) -> list[Instance]:
    system = new_system(
        backbone, TranscriptWaitK(k=1, max_seconds=1.6), chunk_seconds=0.32, loaded=True
    )
    sources = [
        Source(str(index), talk.split(system.chunk_samples)) for index, talk in enumerate(talks)
    ]
    return list(simulate(system, sources, batch_size=batch))


@torch.inference_mode()
def test_fast_and_plain_batched_and_alone(
    make: Callable[..., ChainOfThought],
    noise: Callable[..., Tensor],
    spoken: Callable[[ChainOfThought], None],
) -> None:
    """Segments also end at the cap, so that streams drop audio at different times."""
    talks = [noise(seconds, seed) for seed, seconds in enumerate(TALKS)]

    def every_talk_is_written_in_three_chunks(seed: int) -> bool:
        options = {"max_tokens": 9, "seed": seed, "end_scale": 0.5}
        fast, plain = make(**options), make(**options, draft=False, reuse=False)
        for backbone in (fast, plain):
            spoken(backbone)
        expected = [(one.text, one.delays) for one in streamed(plain, talks, 1)]
        if min(len(set(delays)) for _, delays in expected) < 3:
            return False
        for batch in (1, 2):
            assert [(one.text, one.delays) for one in streamed(fast, talks, batch)] == expected
        return True

    assert_until(every_talk_is_written_in_three_chunks)
