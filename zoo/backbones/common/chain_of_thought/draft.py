"""A guess of what each stream will say is verified in the pass that feeds its prompt. Knows no search and no audio."""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from zoo.backbones.common.causal.branches import Cached, Turn, empty_cache


class Drafted(Turn):
    """Greedy answers from nothing on; what of a draft greedy search would say, token by token, is said already.

    accepted: per stream, the ids of its draft that agree, up to the first that does not. The rest of it is fed but
    seen by nothing, and what follows has the position it would have without it.
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
        """prompts: (n, width) per stream. drafts: ids that may follow. never: ids that are never said."""
        self._drafts = drafts
        self._never = list(never)
        cache, embed = empty_cache(decoder), decoder.get_input_embeddings()
        device = prompts[0].device
        guesses = [embed(torch.tensor(draft, dtype=torch.long, device=device)) for draft in drafts]
        super().__init__(
            decoder,
            [Cached(cache) for _ in prompts],
            [
                torch.cat([prompt, guess.to(prompt)])
                for prompt, guess in zip(prompts, guesses, strict=True)
            ],
        )

    def _begin(self, hidden: Tensor) -> None:
        longest = max(len(draft) for draft in self._drafts)
        hidden = hidden[:, hidden.shape[1] - longest - 1 :]
        self.accepted = (
            [[] for _ in self._drafts] if longest == 0 else self._agreeing(hidden[:, :-1])
        )
        rejected = [
            len(draft) - len(kept) for draft, kept in zip(self._drafts, self.accepted, strict=True)
        ]
        for stream, count in enumerate(rejected):
            self.visible[stream, self.prefix - count :] = False
        back = torch.tensor(rejected, device=hidden.device)
        self._next = self._next - back[:, None]
        self.log_probs = self._predict(
            hidden[torch.arange(len(back), device=back.device), longest - back]
        )

    def _agreeing(self, hidden: Tensor) -> list[list[int]]:
        """The begin of each draft that is what (streams, longest draft, width) predict."""
        logits = self._logits(hidden)
        if self._never:
            logits.index_fill_(2, torch.tensor(self._never, device=logits.device), -torch.inf)
        accepted = []
        for draft, best in zip(self._drafts, logits.argmax(dim=-1).tolist(), strict=True):
            pairs = zip(draft, best[len(best) - len(draft) :], strict=True)
            agreed = next(
                (place for place, (guess, said) in enumerate(pairs) if guess != said), len(draft)
            )
            accepted.append(draft[:agreed])
        return accepted
