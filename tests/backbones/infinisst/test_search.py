"""Against Hugging Face's ``generate`` and by hand."""

import dataclasses
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from zoo.backbones.infinisst import InfiniSST, SearchConfig
from zoo.backbones.infinisst.encoder import EncoderState
from zoo.backbones.infinisst.search import search
from zoo.backbones.infinisst.turn import Turn
from zoo.backbones.infinisst.window import Answer, StreamState, empty_cache

END = 2
PLAIN = SearchConfig(beams=1, no_repeat_ngram=0, repetition_penalty=1.0)


def prompt(backbone: InfiniSST, seed: int, length: int = 6) -> Tensor:
    ids = torch.randint(8, 264, (length,), generator=torch.Generator().manual_seed(seed))
    return backbone.decoder.get_input_embeddings()(ids)


@torch.inference_mode()
def ours(backbone: InfiniSST, prompts: list[Tensor], config: SearchConfig, limits: list[int]) -> list[Answer]:
    states = [
        StreamState(encoder=EncoderState(torch.zeros(0), torch.zeros(0)), cache=empty_cache(backbone.decoder))
        for _ in prompts
    ]
    return search(
        Turn(backbone.decoder, states, prompts), config, written=[[] for _ in prompts], limits=limits, end=END
    )


@torch.inference_mode()
def theirs(backbone: InfiniSST, embeddings: Tensor, config: SearchConfig, limit: int) -> list[int]:
    ids = backbone.decoder.generate(
        inputs_embeds=embeddings[None],
        attention_mask=torch.ones(1, len(embeddings), dtype=torch.long),
        max_new_tokens=limit,
        num_beams=config.beams,
        length_penalty=config.length_penalty,
        no_repeat_ngram_size=config.no_repeat_ngram,
        repetition_penalty=config.repetition_penalty,
        do_sample=False,
        eos_token_id=END,
        pad_token_id=0,
    )[0].tolist()
    while ids and ids[-1] == 0:
        ids.pop()
    return ids


def said(answer: Answer) -> list[int]:
    return [*answer.tokens, END] if answer.finished else answer.tokens


@pytest.mark.parametrize("limit", [1, 4, 12])
def test_greedy_is_hugging_faces(make: Callable[..., InfiniSST], limit: int) -> None:
    backbone = make(seed=1)
    lengths = set()
    for seed in range(12):
        embeddings = prompt(backbone, seed)
        (answer,) = ours(backbone, [embeddings], PLAIN, [limit])
        assert said(answer) == theirs(backbone, embeddings, PLAIN, limit)
        assert answer.generated.shape[3] == len(said(answer)) - 1
        lengths.add((len(answer.tokens), answer.finished))
    assert len(lengths) > (2 if limit > 4 else 1)


@pytest.mark.filterwarnings("ignore:Passing")
@pytest.mark.parametrize("beams", [2, 4])
@pytest.mark.parametrize(
    "changes",
    [{}, {"length_penalty": 0.0}, {"length_penalty": 2.0}, {"no_repeat_ngram": 2}, {"repetition_penalty": 1.5}],
)
def test_beam_search_is_hugging_faces(make: Callable[..., InfiniSST], beams: int, changes: dict) -> None:
    backbone, config = make(seed=1), dataclasses.replace(PLAIN, beams=beams, **changes)
    lengths = set()
    for seed in range(10):
        embeddings = prompt(backbone, seed)
        (answer,) = ours(backbone, [embeddings], config, [12])
        assert said(answer) == theirs(backbone, embeddings, config, 12), seed
        assert answer.generated.shape[3] == len(said(answer)) - 1
        lengths.add((len(answer.tokens), answer.finished))
    assert len(lengths) > 1


def test_a_wide_beam_finds_the_best_of_all_answers(make: Callable[..., InfiniSST]) -> None:
    """Two steps over the whole vocabulary, enumerated."""
    backbone = make(seed=1)
    config = dataclasses.replace(PLAIN, beams=132)
    for seed in range(4):
        embeddings = prompt(backbone, seed)
        with torch.inference_mode():
            first = backbone.decoder(inputs_embeds=embeddings[None]).logits[0, -1].log_softmax(-1)
            table = backbone.decoder.get_input_embeddings().weight
            both = torch.cat([embeddings.expand(264, -1, -1), table[:, None]], dim=1)
            second = backbone.decoder(inputs_embeds=both).logits[:, -1].log_softmax(-1)
        totals = (first[:, None] + second) / 2
        totals[END] = -torch.inf
        best = totals.argmax()
        expected = [END] if first[END] >= totals.max() else [int(best) // 264, int(best) % 264]
        (answer,) = ours(backbone, [embeddings], config, [2])
        assert said(answer) == expected


@torch.inference_mode()
@pytest.mark.parametrize("beams", [1, 2, 4])
def test_kept_keys_are_those_of_the_answer(make: Callable[..., InfiniSST], beams: int) -> None:
    """Whatever rows the winning beam has passed through."""
    backbone = make(seed=1)
    lengths = set()
    for seed in range(8):
        embeddings = prompt(backbone, seed)
        (answer,) = ours(backbone, [embeddings], dataclasses.replace(PLAIN, beams=beams), [12])
        cached = said(answer)[:-1]
        state = StreamState(encoder=EncoderState(torch.zeros(0), torch.zeros(0)), cache=empty_cache(backbone.decoder))
        turn = Turn(backbone.decoder, [state], [embeddings])
        for token in cached:
            turn.step([token])
        torch.testing.assert_close(answer.generated, turn.generated(0), rtol=0, atol=1e-6)
        lengths.add(len(cached))
    assert len(lengths) > 2


@pytest.mark.parametrize("beams", [1, 3])
def test_streams_of_a_batch_do_not_see_each_other(make: Callable[..., InfiniSST], beams: int) -> None:
    backbone, config = make(seed=1), SearchConfig(beams=beams, no_repeat_ngram=3)
    prompts = [prompt(backbone, seed, length) for seed, length in ((0, 3), (1, 9), (2, 5))]
    limits = [8, 2, 5]
    together = ours(backbone, prompts, config, limits)
    for embeddings, limit, answer in zip(prompts, limits, together, strict=True):
        (alone,) = ours(backbone, [embeddings], config, [limit])
        assert (alone.tokens, alone.finished) == (answer.tokens, answer.finished)
        torch.testing.assert_close(alone.generated, answer.generated, rtol=0, atol=1e-6)


def test_repetition_controls_by_hand() -> None:
    log_probs = torch.tensor([[-1.0, -2.0, -3.0, -4.0]]).repeat(2, 1)
    written = [[3, 1, 3, 1], [0]]
    inf = torch.inf
    penalised = SearchConfig(no_repeat_ngram=0, repetition_penalty=2.0).scores(log_probs, written)
    assert penalised.tolist() == [[-1, -4, -3, -8], [-2, -2, -3, -4]]
    bigrams = SearchConfig(no_repeat_ngram=2, repetition_penalty=1.0).scores(log_probs, written)
    assert bigrams.tolist() == [[-1, -2, -3, -inf], [-1, -2, -3, -4]]
    trigrams = SearchConfig(no_repeat_ngram=3, repetition_penalty=1.0).scores(log_probs, [[3, 1, 0, 3, 1], [3, 1]])
    assert trigrams.tolist() == [[-inf, -2, -3, -4], [-1, -2, -3, -4]]
    unigrams = SearchConfig(no_repeat_ngram=1, repetition_penalty=1.0).scores(log_probs, [[0, 2], []])
    assert unigrams.tolist() == [[-inf, -2, -inf, -4], [-1, -2, -3, -4]]
    assert SearchConfig(no_repeat_ngram=0, repetition_penalty=1.0).scores(log_probs, written) is log_probs
