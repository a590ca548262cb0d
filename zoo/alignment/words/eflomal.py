"""Statistical word alignment of a corpus by eflomal (Östling and Tiedemann, 2016).

eflomal estimates an HMM with fertilities by Gibbs sampling from the pairs that it aligns. It needs
no model, but some thousands of pairs. Its samplers take their seed from the operating system: two
runs differ in a few links.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from zoo.alignment.words.base import Links, Pair, links
from zoo.alignment.words.context import with_context
from zoo.alignment.words.pharaoh import read_links
from zoo.alignment.words.symmetrisation import SYMMETRISATIONS, Symmetrisation
from zoo.base.errors import ZooError, check_choice, check_numbers

if TYPE_CHECKING:
    import torch


class EflomalAligner:
    """The aligner of the package ``eflomal``, with both directions symmetrised.

    Words are compared in lower case without punctuation at their ends.

    Args:
        symmetrisation: how the two directions are combined: intersection, union or
            grow-diag-final-and.
        model: 1: IBM model 1; 2: HMM; 3: HMM with fertilities.
        samplers: number of independent samplers, whose results are averaged.
        null_prior: prior probability that a word has no link; a smaller one gives more links.
        iterations: factor of the number of iterations, which eflomal derives from the number of
            pairs.
        context_ratio: a target word is also linked to the source words of the next target word if
            it is this many times as probable with them as without
            (``zoo.alignment.words.context``); None: it is not.

    Raises:
        ZooError: an argument is unknown or outside its range.
    """

    whole_corpus = True

    def __init__(
        self,
        *,
        symmetrisation: Symmetrisation = "grow-diag-final-and",
        model: int = 3,
        samplers: int = 3,
        null_prior: float = 0.2,
        iterations: float = 1.0,
        context_ratio: float | None = None,
    ) -> None:
        check_choice("symmetrisation", symmetrisation, SYMMETRISATIONS)
        check_numbers("eflomal", least=1, most=3, model=model)
        check_numbers("eflomal", least=1, samplers=samplers)
        check_numbers("eflomal", above=0, iterations=iterations)
        check_numbers("eflomal", above=0, most=1, null_prior=null_prior)
        check_numbers("eflomal", above=1, context_ratio=context_ratio)
        self.symmetrisation = symmetrisation
        self.model = model
        self.samplers = samplers
        self.null_prior = null_prior
        self.iterations = iterations
        self.context_ratio = context_ratio

    def check(self) -> None:
        """See ``WordAligner``."""
        if find_spec("eflomal") is None:
            raise ZooError(
                "Word alignment by eflomal needs its package: pip install 'simulzoo[align]'."
            )

    def load(self, device: "torch.device | None" = None) -> None:
        """Nothing to load; see ``WordAligner``."""
        self.check()

    def align(self, pairs: Sequence[Pair]) -> list[Links]:
        """Estimate the model on all pairs and align them; see ``WordAligner``."""
        self.check()
        from eflomal import Aligner

        indices = [index for index, pair in enumerate(pairs) if all(pair)]
        results: list[Links] = [((),) * len(target) for _, target in pairs]
        if not indices:
            return results
        plain = [_tokens(pairs[index]) for index in indices]
        sources, targets = ([" ".join(pair[side]) for pair in plain] for side in (0, 1))

        aligner = Aligner(
            model=self.model,
            n_samplers=self.samplers,
            null_prior=self.null_prior,
            rel_iterations=self.iterations,
        )
        with TemporaryDirectory() as folder:
            files = [Path(folder) / direction for direction in ("forward", "reverse")]
            try:
                aligner.align(sources, targets, *map(str, files))
            except (OSError, RuntimeError) as error:
                raise ZooError(f"eflomal failed: {error}") from error
            forward, reverse = map(read_links, files)
        if not len(forward) == len(reverse) == len(indices):
            raise ZooError(f"eflomal aligned {len(forward)} of {len(indices)} pairs.")

        combine = SYMMETRISATIONS[self.symmetrisation]
        all_links = [
            links(combine(set(one), set(other)), targets=len(pairs[index][1]))
            for index, one, other in zip(indices, forward, reverse, strict=True)
        ]
        if self.context_ratio is not None:
            all_links = with_context(plain, all_links, least_ratio=self.context_ratio)
        for index, linked in zip(indices, all_links, strict=True):
            results[index] = linked
        return results


def _tokens(pair: Pair) -> Pair:
    """Return a pair with exactly one token per word."""
    source, target = pair
    return list(map(_token, source)), list(map(_token, target))


def _token(word: str) -> str:
    """Return a word in lower case without punctuation at its ends; of punctuation all of it."""
    word = word.lower()
    indices = [index for index, character in enumerate(word) if character.isalnum()]
    return word[indices[0] : indices[-1] + 1] if indices else word
