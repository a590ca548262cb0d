"""SimAlign: word alignment by the similarity of contextual embeddings (Jalili Sabet et al., 2020).

The embeddings are those of a multilingual encoder without any training on parallel text.
"""

from collections.abc import Iterator, Sequence
from inspect import signature
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import MODEL_MAPPING, AutoConfig, AutoModel

from zoo.alignment.words.base import Links, Pair, Point, links
from zoo.alignment.words.matching import METHODS, Matrix, Method, discount_distortion
from zoo.backbones.base import dtype_named
from zoo.backbones.common.pretrained import hub
from zoo.backbones.common.pretrained.loading import load_network, load_part, load_tokenizer
from zoo.errors import ZooError, check_choice, check_numbers

NOUN = "multilingual encoder"
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
        self.dtype = dtype_named(dtype)
        self._network: Any = None

    def check(self) -> None:
        """See ``WordAligner``."""
        hub.required(NOUN, self.name, user=USER)

    def load(self, device: torch.device | None = None) -> None:
        """See ``WordAligner``."""
        if self._network is None:
            name = hub.required(NOUN, self.name, user=USER)
            self._tokenizer: Any = load_tokenizer(name)
            if not self._tokenizer.is_fast:
                raise ZooError(f"The tokenizer of {name} does not count the subwords of a word.")
            config = load_part("configuration", AutoConfig.from_pretrained, name)
            layers = config.num_hidden_layers
            encoder: Any = MODEL_MAPPING.get(type(config), None)
            if config.is_encoder_decoder or encoder is None:
                raise ZooError(f"{name} is a {config.model_type}, not a {NOUN}.")
            if self.layer > layers:
                raise ZooError(f"{name} has {layers} layers, but layer={self.layer}.")
            # Encoders of masked language models have no weights of the pooling layer.
            has_pooling = "add_pooling_layer" in signature(encoder).parameters
            options = {"add_pooling_layer": False} if has_pooling else {}
            network = load_network(AutoModel, name, self.dtype, **options)
            self._network = network.requires_grad_(False)
        self._network.to(device or "cpu")

    def align(self, pairs: Sequence[Pair]) -> list[Links]:
        """See ``WordAligner``; call ``load`` first. Pairs do not influence one another."""
        assert self._network is not None, "call load first"
        sentences = [words for pair in pairs if all(pair) for words in pair]
        # Sentences of similar length share a batch, which keeps the padding short.
        order = sorted(range(len(sentences)), key=lambda index: -len(sentences[index]))
        encoded: dict[int, tuple[Matrix, list[int]]] = {}
        for start in range(0, len(order), self.batch_size):
            batch = order[start : start + self.batch_size]
            matrices = self._encode([sentences[index] for index in batch])
            encoded.update(zip(batch, matrices, strict=True))

        results: list[Links] = []
        index = 0
        for source, target in pairs:
            if not source or not target:
                results.append(((),) * len(target))
                continue
            points = self._points(encoded[index], encoded[index + 1])
            results.append(links(points, targets=len(target)))
            index += 2
        return results

    @torch.inference_mode()
    def _encode(self, sentences: Sequence[Sequence[str]]) -> Iterator[tuple[Matrix, list[int]]]:
        """Yield the unit vectors (subwords, width) of each sentence, and the word of each subword.

        The subwords beyond the longest input of the network are left out.
        """
        longest = getattr(self._network.config, "max_position_embeddings", None)
        inputs = self._tokenizer(
            [list(words) for words in sentences],
            is_split_into_words=True,
            padding=True,
            truncation=True,
            max_length=min(self._tokenizer.model_max_length, longest or 512),
            return_tensors="pt",
        )
        device = self._network.device
        output = self._network(
            input_ids=inputs["input_ids"].to(device),
            attention_mask=inputs["attention_mask"].to(device),
            output_hidden_states=True,
        )
        hidden = output.hidden_states[self.layer].double()
        vectors = torch.nn.functional.normalize(hidden, dim=-1).cpu().numpy()
        for row in range(len(sentences)):
            words = inputs.word_ids(row)
            subwords = [index for index, word in enumerate(words) if word is not None]
            yield vectors[row, subwords], [words[index] for index in subwords]

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
