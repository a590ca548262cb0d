"""SimAlign: word alignment by the similarity of contextual embeddings (Jalili Sabet et al., 2020).

The embeddings are those of a multilingual encoder without any training on parallel text.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from zoo.alignment.words.base import Links, Pair, Point, links
from zoo.alignment.words.encoder import NOUN, WordEncoder
from zoo.alignment.words.matching import METHODS, Matrix, Method, discount_distortion
from zoo.backbones.base import dtype_named
from zoo.backbones.pretrained import hub
from zoo.base.errors import check_choice, check_numbers

USER = "Word alignment"


class SimilarityAligner:
    """An aligner of subwords; two words are linked if any of their subwords are.

    InfiniSST aligns with LaBSE and ``argmax`` (its section 3.3; the method by its released code).

    Args:
        name: hub id or folder of an encoder, such as sentence-transformers/LaBSE.
        layer: layer whose output is compared, from 1; 0: the embeddings below the first layer.
        method: how links follow from similarities: argmax, itermax or match.
        distortion: how much a difference of relative positions lowers a similarity (kappa in the
            paper).
        batch_size: number of sentences that are encoded at once.
        dtype: dtype of the network, by its name in torch.

    Raises:
        ZooError: an argument is unknown or outside its range.
    """

    whole_corpus = False

    def __init__(
        self,
        *,
        name: str | None,
        layer: int = 8,
        method: Method = "argmax",
        distortion: float = 0.0,
        batch_size: int = 32,
        dtype: str = "float32",
    ) -> None:
        check_choice("method", method, METHODS)
        check_numbers("Word alignment", least=0, layer=layer)
        check_numbers("Word alignment", least=0, most=1, distortion=distortion)
        check_numbers("Word alignment", least=1, batch_size=batch_size)
        self.name = name
        self.layer = layer
        self.method = method
        self.distortion = distortion
        self.batch_size = batch_size
        dtype_named(dtype)  # raises ZooError for an unknown one
        self.dtype = dtype
        self._encoder: WordEncoder | None = None

    def check(self) -> None:
        """See ``WordAligner``."""
        hub.required(NOUN, self.name, user=USER)

    def load(self, device: torch.device | None = None) -> None:
        """See ``WordAligner``."""
        if self._encoder is None:
            name = hub.required(NOUN, self.name, user=USER)
            self._encoder = WordEncoder(
                name, layer=self.layer, batch_size=self.batch_size, dtype=self.dtype
            )
        self._encoder.load(device)

    def align(self, pairs: Sequence[Pair]) -> list[Links]:
        """See ``WordAligner``; call ``load`` first. Pairs do not influence one another."""
        assert self._encoder is not None, "call load first"
        sentences = [words for pair in pairs if all(pair) for words in pair]
        encoded = iter(self._encoder.encode(sentences))
        results: list[Links] = []
        for source, target in pairs:
            if not source or not target:
                results.append(((),) * len(target))
                continue
            points = self._points(next(encoded), next(encoded))
            results.append(links(points, targets=len(target)))
        return results

    def _points(
        self, source: tuple[Matrix, list[int]], target: tuple[Matrix, list[int]]
    ) -> list[Point]:
        """Return the linked words of two encoded sentences."""
        if not source[1] or not target[1]:
            return []
        similarity = (source[0] @ target[0].T + 1) / 2
        similarity = discount_distortion(similarity, self.distortion)
        linked: NDArray[np.bool_] = METHODS[self.method](similarity)
        return [
            (source[1][first], target[1][second]) for first, second in np.argwhere(linked).tolist()
        ]
