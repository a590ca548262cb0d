"""After a draft that is accepted in part, caches equal those of the accepted part alone."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from transformers import DynamicCache

from zoo.backbones.architectures.chain_of_thought.chain_of_thought import ChainOfThought
from zoo.backbones.decoding.causal.branches import CausalBranches, Prefilled, empty_cache
from zoo.backbones.decoding.continuation import SearchContext
from zoo.backbones.decoding.search import SearchConfig, search

CLOSE = {"rtol": 0, "atol": 2e-6}  # the norms compute in float32


class RecordedBranches(CausalBranches):
    """Branches that record how many ids of each draft are accepted."""

    def accept(self, lengths: Sequence[int]) -> None:
        self.accepted = list(lengths)
        super().accept(lengths)


def alone(backbone: ChainOfThought, embeddings: Tensor, ids: list[int]) -> tuple[Tensor, Tensor]:
    """Transformers on the whole sequence: scores of the next id, all keys and values."""
    tokens = backbone.model.get_input_embeddings()(torch.tensor(ids, dtype=torch.long))
    cache = DynamicCache()
    output = backbone.model(
        inputs_embeds=torch.cat([embeddings, tokens])[None], past_key_values=cache, use_cache=True
    )
    return output.logits[0, -1], torch.stack(
        [torch.stack([layer.keys[0], layer.values[0]]) for layer in cache.layers]
    )


@torch.inference_mode()
def test_only_drafted_tokens_of_greedy_search_are_accepted(
    make: Callable[..., ChainOfThought],
) -> None:
    backbone = make()
    random = torch.Generator().manual_seed(0)
    prompts = [
        torch.randn(size, 16, generator=random, dtype=torch.float64) for size in (7, 4, 11, 5)
    ]
    never = [int(alone(backbone, prompts[2], [])[0].argmax())]
    greedy: list[list[int]] = []
    for prompt in prompts:
        ids_so_far: list[int] = []
        for _ in range(9):
            scores = alone(backbone, prompt, ids_so_far)[0].index_fill(
                0, torch.tensor(never), -torch.inf
            )
            ids_so_far.append(int(scores.argmax()))
        greedy.append(ids_so_far)
    wrong = [token + 1 for token in greedy[1]]
    drafts = [greedy[0][:5], greedy[1][:2] + wrong[2:6], greedy[2][:4], []]
    empty = Prefilled(empty_cache(backbone.decoder))
    turn = RecordedBranches(backbone.decoder, [empty] * 4, prompts, drafts=drafts)
    answers = search(
        turn,
        SearchConfig(),
        contexts=[SearchContext([], [])] * 4,
        limits=[8, 5, 9, 3],  # of different lengths: streams leave the batch one by one
        ends=[-1],
        never=never,
        drafts=turn,
    )
    assert turn.accepted == [5, 2, 4, 0]
    assert turn._cache.length == max(map(len, prompts)) + 6 + 4  # the longest draft and the steps
    for stream, (answer, limit) in enumerate(zip(answers, [8, 5, 9, 3], strict=True)):
        assert answer.tokens == greedy[stream][:limit]
        _, kept = alone(backbone, prompts[stream], answer.tokens[:-1])
        fed = torch.cat([turn.prefilled(stream), answer.generated], dim=3)
        torch.testing.assert_close(fed, kept, **CLOSE)
