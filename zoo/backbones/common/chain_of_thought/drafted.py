"""Branches whose first tokens are verified in the pass that feeds the prompt, instead of one by
one.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from zoo.backbones.common.causal.branches import CausalBranches, Prefilled, empty_cache


class DraftedBranches(CausalBranches):
    """Greedy answers that begin with the part of a draft that greedy search would generate as well.

    The rejected part of a draft is cached but masked; the next token has the position it would have
    without it.

    Attributes:
        accepted: Per stream, the ids of its draft up to the first that greedy search rejects.
    """

    accepted: list[list[int]]

    def __init__(
        self,
        decoder: PreTrainedModel,
        prompts: Sequence[Tensor],
        drafts: Sequence[list[int]],
        *,
        never: Sequence[int],
    ) -> None:
        """Feed prompts and drafts.

        Args:
            decoder: The causal LM.
            prompts: (n, embedding) per stream.
            drafts: Ids that may follow each prompt.
            never: Ids that are never generated.
        """
        self._drafts = drafts
        self._never = list(never)
        cache, embed = empty_cache(decoder), decoder.get_input_embeddings()
        device = prompts[0].device
        guesses = [embed(torch.tensor(draft, dtype=torch.long, device=device)) for draft in drafts]
        fed = [
            torch.cat([prompt, guess.to(prompt)])
            for prompt, guess in zip(prompts, guesses, strict=True)
        ]
        super().__init__(decoder, [Prefilled(cache) for _ in prompts], fed)

    def _begin(self, hidden: Tensor) -> None:
        longest = max(len(draft) for draft in self._drafts)
        hidden = hidden[:, hidden.shape[1] - longest - 1 :]
        self.accepted = self._verified(hidden[:, :-1]) if longest else [[] for _ in self._drafts]

        pairs = zip(self._drafts, self.accepted, strict=True)
        rejected = [len(draft) - len(kept) for draft, kept in pairs]
        for stream, count in enumerate(rejected):
            self.visible[stream, self.prefix - count :] = False
        back = torch.tensor(rejected, device=hidden.device)
        self._next = self._next - back[:, None]
        rows = torch.arange(len(back), device=back.device)
        self.log_probs = self._predict(hidden[rows, longest - back])

    def _verified(self, hidden: Tensor) -> list[list[int]]:
        """The accepted part of each draft, from (streams, longest draft, width)."""
        logits = self._logits(hidden)
        if self._never:
            logits.index_fill_(2, torch.tensor(self._never, device=logits.device), -torch.inf)
        accepted = []
        for draft, best in zip(self._drafts, logits.argmax(dim=-1).tolist(), strict=True):
            pairs = enumerate(zip(draft, best[len(best) - len(draft) :], strict=True))
            agreed = next((place for place, (id_, greedy) in pairs if id_ != greedy), len(draft))
            accepted.append(draft[:agreed])
        return accepted
