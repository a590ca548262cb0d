"""``generate`` of Transformers as reference, with and without a forced prefix.

Also branches, ragged batches and rows.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from zoo.backbones.architectures.encoder_decoder.branches import EncoderDecoderBranches
from zoo.backbones.decoding.continuation import Answer, SearchContext
from zoo.backbones.decoding.search import SearchConfig, search

PAD, END = 1, 2
LAYER = 1
PREFIX = [9, 10, 11, 9, 12]
Remember = Callable[..., Tensor]


@torch.inference_mode()
def ours(
    family: Any,
    memories: list[Tensor],
    prompts: list[list[int]],
    config: SearchConfig,
    limits: list[int],
    heads: Any,
) -> tuple[EncoderDecoderBranches, list[Answer]]:
    texts = EncoderDecoderBranches(family.decoder, memories, prompts, heads=heads)
    contexts = [SearchContext(prompt, []) for prompt in prompts]
    return texts, search(texts, config, contexts=contexts, limits=limits, ends=[END], never=[PAD])


def answer_ids(answer: Answer) -> list[int]:
    return [*answer.tokens, END] if answer.finished else answer.tokens


@pytest.mark.parametrize("prefix", [[], PREFIX])
@pytest.mark.parametrize(
    "config",
    [SearchConfig(no_repeat_ngram=2), SearchConfig(beams=4, no_repeat_ngram=2, length_penalty=0.6)],
    ids=["greedy", "beams"],
)
def test_answers_are_transformers(
    family: Any, memory: Remember, config: SearchConfig, prefix: list[int]
) -> None:
    lengths = set()
    for seed in range(6):
        states, prompt = memory(5 + seed, seed=seed), family.opening + prefix
        _, (answer,) = ours(family, [states], [prompt], config, [12], {})
        assert answer_ids(answer) == family.theirs(states, prompt, config, 12)
        assert len(answer.generated) == len(answer_ids(answer)) - 1
        lengths.add(len(answer_ids(answer)))
    assert len(lengths) > 1


@pytest.mark.parametrize("beams", [1, 3])
def test_a_ragged_batch_is_each_stream_alone(family: Any, memory: Remember, beams: int) -> None:
    """Memories, prefixes and limits of different lengths."""
    config = SearchConfig(beams=beams, no_repeat_ngram=3)
    memories = [memory(frames, seed=frames) for frames in (3, 12, 7, 1)]
    prompts = [family.opening + PREFIX[:size] for size in (0, 5, 2, 4)]
    limits = [14, 9, 1, 14]
    texts, answers = ours(family, memories, prompts, config, limits, {LAYER: None, 2: [1]})
    for stream, answer in enumerate(answers):
        alone, (expected,) = ours(
            family,
            [memories[stream]],
            [prompts[stream]],
            config,
            [limits[stream]],
            {LAYER: None, 2: [1]},
        )
        assert (answer.tokens, answer.finished) == (expected.tokens, expected.finished)
        looked = texts.attention(stream, answer.generated)
        torch.testing.assert_close(
            looked, alone.attention(0, expected.generated), rtol=0, atol=1e-12
        )
        assert looked.shape == (
            len(prompts[stream]) + len(answer.generated),
            5,
            len(memories[stream]),
        )


@pytest.mark.parametrize("beams", [1, 2, 4])
def test_rows_are_those_of_the_answer(family: Any, memory: Remember, beams: int) -> None:
    """Caches of the winning beam equal those of Transformers after one pass over its tokens."""
    config, lengths = SearchConfig(beams=beams, no_repeat_ngram=2), set()
    memories = [memory(4 + seed, seed=seed) for seed in range(4)]
    prompts = [family.opening + PREFIX[: seed + 1] for seed in range(4)]
    texts, answers = ours(family, memories, prompts, config, [3, 12, 12, 12], {LAYER: [2, 0]})
    for stream, answer in enumerate(answers):
        fed = prompts[stream] + answer_ids(answer)[:-1]
        expected = family.attention(memories[stream], fed)[LAYER][[2, 0]].transpose(0, 1)
        torch.testing.assert_close(
            texts.attention(stream, answer.generated), expected, rtol=0, atol=1e-9
        )
        lengths.add(len(answer.generated))
    assert len(lengths) > 1


def test_beams_share_memory_and_prompt(speech_to_text: Any, memory: Remember) -> None:
    with torch.inference_mode():
        texts = EncoderDecoderBranches(
            speech_to_text.decoder, [memory(5)] * 2, [[2, 7, *PREFIX]] * 2, heads={}
        )
        texts.fork(3)
        texts.step(torch.tensor([9] * 6), torch.arange(6))
    assert [keys.shape[0] for keys in texts._memory.keys] == [2, 2, 2]
    assert texts._cache.data.shape[2] == 2
    assert texts._cache.length == 7 + 3


def test_finished_streams_stay_within_the_position_table(
    make_family: Callable[[str], Any], memory: Remember
) -> None:
    """One stream is near the end of Whisper's table when the other has far to go."""
    whisper = make_family("whisper")
    prompts = [whisper.opening + [9, 10] * 29, whisper.opening]
    config = SearchConfig()
    _, answers = ours(whisper, [memory(5), memory(6)], prompts, config, [2, 12], {})
    for stream, limit in enumerate([2, 12]):
        _, (alone,) = ours(
            whisper, [[memory(5), memory(6)][stream]], [prompts[stream]], config, [limit], {}
        )
        assert answers[stream].tokens == alone.tokens
