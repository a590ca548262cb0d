"""After a draft that is accepted in part, caches equal those of the accepted part alone."""

from collections.abc import Callable

import torch
from torch import Tensor
from transformers import DynamicCache

from zoo.backbones.common.chain_of_thought.chain_of_thought import ChainOfThought
from zoo.backbones.common.chain_of_thought.drafted import DraftedBranches

CLOSE = {"rtol": 0, "atol": 2e-6}  # the norms compute in float32


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
        for _ in range(6):
            scores = alone(backbone, prompt, ids_so_far)[0].index_fill(
                0, torch.tensor(never), -torch.inf
            )
            ids_so_far.append(int(scores.argmax()))
        greedy.append(ids_so_far)
    wrong = [token + 1 for token in greedy[1]]
    drafts = [greedy[0][:5], greedy[1][:2] + wrong[2:], greedy[2][:4], []]
    turn = DraftedBranches(backbone.decoder, prompts, drafts, never=never)
    assert turn.accepted == [greedy[0][:5], greedy[1][:2], greedy[2][:4], []]
    ids_so_far = [list(accepted) for accepted in turn.accepted]
    for _ in range(3):
        for row, (prompt, ids) in enumerate(zip(prompts, ids_so_far, strict=True)):
            scores, kept = alone(backbone, prompt, ids)
            torch.testing.assert_close(turn.log_probs[row], scores.log_softmax(-1), **CLOSE)
            fed = torch.cat([turn.prefilled(row), turn.generated(row)], dim=3)
            torch.testing.assert_close(fed, kept, **CLOSE)
        step = torch.randint(20, 200, (4,), generator=random).tolist()
        turn.step(step)
        ids_so_far = [[*ids, token] for ids, token in zip(ids_so_far, step, strict=True)]
