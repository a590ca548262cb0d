"""Against Hugging Face's ``generate`` and by hand."""

import dataclasses
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from transformers import (
    EncoderNoRepeatNGramLogitsProcessor,
    LogitsProcessor,
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
)

from zoo.backbones.decoding.causal.branches import CausalBranches, empty_cache
from zoo.backbones.decoding.continuation import Answer, SearchContext
from zoo.backbones.decoding.rules import SearchRules
from zoo.backbones.encoders.wav2vec2.encoder import EncoderState
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.backbones.infinisst.search import TurnSearchConfig, search
from zoo.backbones.infinisst.window import WindowState

END = 2
PLAIN = TurnSearchConfig(beams=1, no_repeat_ngram=0, repetition_penalty=1.0)


def prompt(backbone: InfiniSST, seed: int, length: int = 6) -> Tensor:
    ids = torch.randint(8, 264, (length,), generator=torch.Generator().manual_seed(seed))
    return backbone.decoder.get_input_embeddings()(ids)


@torch.inference_mode()
def ours(
    backbone: InfiniSST,
    prompts: list[Tensor],
    config: TurnSearchConfig,
    limits: list[int],
    contexts: list[SearchContext] | None = None,
    never: list[int] | None = None,
) -> list[Answer]:
    states = [
        WindowState(
            encoder=EncoderState(torch.zeros(0), torch.zeros(0)),
            cache=empty_cache(backbone.decoder),
        )
        for _ in prompts
    ]
    contexts = contexts or [SearchContext([], []) for _ in prompts]
    turn = CausalBranches(backbone.decoder, states, prompts)
    return search(turn, config, contexts=contexts, limits=limits, end=END, never=never or [])


@torch.inference_mode()
def theirs(
    backbone: InfiniSST, embeddings: Tensor, config: TurnSearchConfig, limit: int, **options: object
) -> list[int]:
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
        **options,
    )[0].tolist()
    while ids and ids[-1] == 0:
        ids.pop()
    return ids


def answer_ids(answer: Answer) -> list[int]:
    return [*answer.tokens, END] if answer.finished else answer.tokens


@pytest.mark.parametrize("limit", [1, 4, 12])
def test_greedy_is_hugging_faces(make: Callable[..., InfiniSST], limit: int) -> None:
    backbone = make(seed=1)
    lengths = set()
    for seed in range(12):
        embeddings = prompt(backbone, seed)
        (answer,) = ours(backbone, [embeddings], PLAIN, [limit])
        assert answer_ids(answer) == theirs(backbone, embeddings, PLAIN, limit)
        assert answer.generated.shape[3] == len(answer_ids(answer)) - 1
        lengths.add((len(answer.tokens), answer.finished))
    assert len(lengths) > (2 if limit > 4 else 1)


@pytest.mark.filterwarnings("ignore:Passing")
@pytest.mark.parametrize("beams", [2, 4])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"length_penalty": 0.0},
        {"length_penalty": 2.0},
        {"no_repeat_ngram": 2},
        {"repetition_penalty": 1.5},
    ],
)
def test_beam_search_is_hugging_faces(
    make: Callable[..., InfiniSST], beams: int, changes: dict
) -> None:
    backbone, config = make(seed=1), dataclasses.replace(PLAIN, beams=beams, **changes)
    lengths = set()
    for seed in range(10):
        embeddings = prompt(backbone, seed)
        (answer,) = ours(backbone, [embeddings], config, [12])
        assert answer_ids(answer) == theirs(backbone, embeddings, config, 12), seed
        assert answer.generated.shape[3] == len(answer_ids(answer)) - 1
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
        assert answer_ids(answer) == expected


@torch.inference_mode()
@pytest.mark.parametrize("beams", [1, 2, 4])
def test_kept_keys_are_those_of_the_answer(make: Callable[..., InfiniSST], beams: int) -> None:
    """Whatever rows the winning beam has passed through."""
    backbone = make(seed=1)
    lengths = set()
    for seed in range(8):
        embeddings = prompt(backbone, seed)
        (answer,) = ours(backbone, [embeddings], dataclasses.replace(PLAIN, beams=beams), [12])
        cached = answer_ids(answer)[:-1]
        state = WindowState(
            encoder=EncoderState(torch.zeros(0), torch.zeros(0)),
            cache=empty_cache(backbone.decoder),
        )
        turn = CausalBranches(backbone.decoder, [state], [embeddings])
        for token in cached:
            turn.step(torch.tensor([token]))
        torch.testing.assert_close(answer.generated, turn.generated(0), rtol=0, atol=1e-6)
        lengths.add(len(cached))
    assert len(lengths) > 2


class Controls(LogitsProcessor):
    """The logits processors of Transformers on the ids that each ``repetition`` option counts."""

    def __init__(self, config: TurnSearchConfig, context: SearchContext) -> None:
        earlier, size = torch.tensor([context.earlier], dtype=torch.long), config.no_repeat_ngram
        self.before = earlier if config.repetition == "text" else torch.tensor([context.prompt])
        self.processors = [
            RepetitionPenaltyLogitsProcessor(config.repetition_penalty),
            NoRepeatNGramLogitsProcessor(size),
        ]
        if config.repetition == "prompt":
            self.processors.append(EncoderNoRepeatNGramLogitsProcessor(size, earlier))

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        rows = []
        for answer, row in zip(input_ids, scores.log_softmax(-1), strict=True):
            ids, row = torch.cat([self.before[0], answer])[None], row[None]
            for processor in self.processors:
                row = processor(ids, row)
            rows.append(row)
        return torch.cat(rows)


CONTEXT = SearchContext(earlier=[50, 51, 52, 50, 51, 60] * 3, prompt=[END, 6, 7, 7, 7, END, 5])


@pytest.mark.parametrize("repetition", ["text", "prompt"])
def test_controls_are_hugging_faces(repetition: str) -> None:
    config = TurnSearchConfig(no_repeat_ngram=3, repetition_penalty=1.7, repetition=repetition)
    generator = torch.Generator().manual_seed(0)
    log_probs = torch.randn(5, 70, generator=generator, dtype=torch.float64).log_softmax(-1)
    answers = [[8, 50, 51], [50, 51, 52], [60, 50, 51], [9, 50, 50], [51, 52, 50]]
    rules = SearchRules(config.controls, [CONTEXT] * 5, log_probs=log_probs, answers=answers)
    found = rules.scores(log_probs)
    torch.testing.assert_close(
        found, Controls(config, CONTEXT)(torch.tensor(answers), log_probs), rtol=0, atol=1e-12
    )
    assert found.isinf().sum() >= 4
    assert (found[0, END] < log_probs[0, END]) == (repetition == "prompt")


@pytest.mark.filterwarnings("ignore:Passing")
@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize("repetition", ["text", "prompt"])
def test_search_under_controls_is_hugging_faces(
    make: Callable[..., InfiniSST], beams: int, repetition: str
) -> None:
    backbone = make(seed=1)
    config = TurnSearchConfig(
        beams=beams, no_repeat_ngram=2, repetition_penalty=1.5, repetition=repetition
    )
    plain, changed = dataclasses.replace(PLAIN, beams=beams), 0
    for seed in range(8):
        embeddings = prompt(backbone, seed)
        (first,) = ours(backbone, [embeddings], plain, [12])
        context = SearchContext(earlier=first.tokens, prompt=[END, 6, *first.tokens[:3]])
        (answer,) = ours(backbone, [embeddings], config, [12], [context])
        expected = theirs(
            backbone, embeddings, plain, 12, logits_processor=[Controls(config, context)]
        )
        assert answer_ids(answer) == expected, seed
        changed += answer_ids(answer) != answer_ids(first)
    assert changed > 4


@pytest.mark.filterwarnings("ignore:Passing")
@pytest.mark.parametrize("beams", [1, 4])
def test_suppressed_tokens_equal_those_of_transformers(
    make: Callable[..., InfiniSST], beams: int
) -> None:
    backbone, config = make(seed=1), dataclasses.replace(PLAIN, beams=beams)
    changed = 0
    for seed in range(6):
        embeddings = prompt(backbone, seed)
        (first,) = ours(backbone, [embeddings], config, [8])
        never = sorted(set(first.tokens[1:]))
        (answer,) = ours(backbone, [embeddings], config, [8], never=never)
        assert answer_ids(answer) == theirs(
            backbone, embeddings, config, 8, suppress_tokens=never or None
        ), seed
        assert not set(answer.tokens) & set(never)
        changed += len(never) > 0
    assert changed > 3


@pytest.mark.parametrize("beams", [1, 3])
def test_an_answer_without_end_may_lose_its_last_id(
    make: Callable[..., InfiniSST], beams: int
) -> None:
    backbone, keep = make(seed=1), dataclasses.replace(PLAIN, beams=beams)
    ends = set()
    for seed in range(10):
        embeddings = prompt(backbone, seed)
        (kept,) = ours(backbone, [embeddings], keep, [4])
        (dropped,) = ours(backbone, [embeddings], dataclasses.replace(keep, at_limit="drop"), [4])
        assert dropped.tokens == (kept.tokens if kept.finished else kept.tokens[:3])
        assert torch.equal(dropped.generated, kept.generated)
        ends.add(kept.finished)
    assert ends == {True, False}


@pytest.mark.parametrize("beams", [1, 3])
def test_streams_of_a_batch_do_not_see_each_other(
    make: Callable[..., InfiniSST], beams: int
) -> None:
    backbone, config = make(seed=1), TurnSearchConfig(beams=beams, no_repeat_ngram=3)
    prompts = [prompt(backbone, seed, length) for seed, length in ((0, 3), (1, 9), (2, 5))]
    limits = [8, 2, 5]
    contexts = [
        SearchContext([50, 51, 52], [END]),
        SearchContext([], [END, 60]),
        SearchContext([80] * 7, [END]),
    ]
    together = ours(backbone, prompts, config, limits, contexts)
    for embeddings, limit, context, answer in zip(prompts, limits, contexts, together, strict=True):
        (alone,) = ours(backbone, [embeddings], config, [limit], [context])
        assert (alone.tokens, alone.finished) == (answer.tokens, answer.finished)
        torch.testing.assert_close(alone.generated, answer.generated, rtol=0, atol=1e-6)


def by_hand(
    config: TurnSearchConfig, earlier: list[list[int]], answers: list[list[int]]
) -> list[list[float]]:
    log_probs = torch.tensor([[-1.0, -2.0, -3.0, -4.0]]).repeat(2, 1)
    contexts = [SearchContext(ids, prompt=[0]) for ids in earlier]
    rules = SearchRules(config.controls, contexts, log_probs=log_probs, answers=answers)
    return rules.scores(log_probs).tolist()


def test_repetition_controls_by_hand() -> None:
    inf = torch.inf
    prefixes = ([[3, 1], [0]], [[3, 1], []])
    penalised = TurnSearchConfig(no_repeat_ngram=0, repetition_penalty=2.0)
    assert by_hand(penalised, *prefixes) == [[-1, -4, -3, -8], [-2, -2, -3, -4]]
    bigrams = TurnSearchConfig(no_repeat_ngram=2, repetition_penalty=1.0)
    assert by_hand(bigrams, *prefixes) == [[-1, -2, -3, -inf], [-1, -2, -3, -4]]
    trigrams = TurnSearchConfig(no_repeat_ngram=3, repetition_penalty=1.0)
    assert by_hand(trigrams, [[3, 1, 0], [3, 1]], [[3, 1], []]) == [
        [-inf, -2, -3, -4],
        [-1, -2, -3, -4],
    ]
    unigrams = TurnSearchConfig(no_repeat_ngram=1, repetition_penalty=1.0)
    assert by_hand(unigrams, [[0], []], [[2], []]) == [[-inf, -2, -inf, -4], [-1, -2, -3, -4]]


def test_controls_of_a_turn_by_hand() -> None:
    """Earlier turns forbid n-grams that stand in this one whole; their words are not penalised."""
    inf = torch.inf
    penalised = TurnSearchConfig(no_repeat_ngram=0, repetition_penalty=2.0, repetition="prompt")
    assert by_hand(penalised, [[3, 1], [1]], [[3], []]) == [[-2, -2, -3, -8], [-2, -2, -3, -4]]
    bigrams = TurnSearchConfig(no_repeat_ngram=2, repetition_penalty=1.0, repetition="prompt")
    assert by_hand(bigrams, [[3, 1], [3, 1, 3]], [[3], []]) == [
        [-1, -inf, -3, -4],
        [-1, -2, -3, -4],
    ]
    assert by_hand(bigrams, [[], []], [[3, 1, 3], [0]]) == [[-1, -inf, -3, -4], [-inf, -2, -3, -4]]
