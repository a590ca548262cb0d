"""Greedy decoding that verifies a draft of each answer in one pass.

The decoder processes prompt and draft together. Greedy search then continues after the longest
prefix of the draft that greedy search would have generated itself.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from zoo.backbones.common.causal.branches import CausalBranches, Prefilled, empty_cache


class DraftedBranches(CausalBranches):
    """A batch of decoder branches that begin with the accepted prefix of a draft.

    The rejected rest of a draft stays in the cache but is masked. The position of the next token is
    the position directly after the accepted prefix.

    Attributes:
        accepted: Accepted prefix of each stream's draft: all ids before the first id that differs
            from greedy search.
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
        """Process prompts and drafts in one pass and verify the drafts.

        Args:
            decoder: The causal LM.
            prompts: Prompt embeddings (n, width) of each stream.
            drafts: Token ids that may follow each prompt; an empty list if there is no draft.
            never: Token ids that are never generated.
        """
        self._drafts = drafts
        self._never = list(never)
        cache = empty_cache(decoder)
        embedding_layer = decoder.get_input_embeddings()
        device = prompts[0].device
        inputs = []
        for prompt, draft in zip(prompts, drafts, strict=True):
            draft_ids = torch.tensor(draft, dtype=torch.long, device=device)
            draft_embeddings = embedding_layer(draft_ids).to(prompt)  # (len(draft), width)
            inputs.append(torch.cat([prompt, draft_embeddings]))
        super().__init__(decoder, [Prefilled(cache) for _ in prompts], inputs)

    def _begin(self, hidden: Tensor) -> None:
        """Verify the drafts and mask their rejected ids.

        Args:
            hidden: Hidden states (streams, n, width) of prompts and drafts, padded at the left.
        """
        longest = max(len(draft) for draft in self._drafts)
        # (streams, longest + 1, width): the last prompt position of the longest draft, and its ids
        hidden = hidden[:, hidden.shape[1] - longest - 1 :]
        if longest:
            self.accepted = self._verify(hidden[:, :-1])
        else:
            self.accepted = [[] for _ in self._drafts]

        rejected_counts = [
            len(draft) - len(accepted)
            for draft, accepted in zip(self._drafts, self.accepted, strict=True)
        ]
        for stream, count in enumerate(rejected_counts):
            self.visible[stream, self.prefix - count :] = False
        rejected = torch.tensor(rejected_counts, device=hidden.device)  # (streams,)
        self._next = self._next - rejected[:, None]
        streams = torch.arange(len(rejected), device=rejected.device)
        last_accepted = hidden[streams, longest - rejected]  # (streams, width)
        self.log_probs = self._predict(last_accepted)

    def _verify(self, hidden: Tensor) -> list[list[int]]:
        """Compare the drafts with greedy search.

        Args:
            hidden: Hidden states (streams, longest draft, width) that predict the ids of the
                drafts. Shorter drafts are aligned at the right.

        Returns:
            Accepted prefix of each draft.
        """
        logits = self._logits(hidden)
        if self._never:
            logits.index_fill_(2, torch.tensor(self._never, device=logits.device), -torch.inf)

        accepted = []
        for draft, best_ids in zip(self._drafts, logits.argmax(dim=-1).tolist(), strict=True):
            greedy_ids = best_ids[len(best_ids) - len(draft) :]
            length = 0
            while length < len(draft) and draft[length] == greedy_ids[length]:
                length += 1
            accepted.append(draft[:length])
        return accepted
