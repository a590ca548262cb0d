"""Contextual embeddings of words by a pretrained encoder."""

from collections.abc import Iterator, Sequence
from inspect import signature
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import MODEL_MAPPING, AutoConfig, AutoModel

from zoo.backbones.base import dtype_named
from zoo.backbones.pretrained import hub
from zoo.backbones.pretrained.loading import load_network, load_part, load_tokenizer
from zoo.base.disk.files import portable_name
from zoo.base.errors import ZooError, check_numbers

Matrix = NDArray[np.float64]

NOUN = "multilingual encoder"

# Words that are encoded together in a long text, and how many of them are context on either side.
WINDOW = 64
MARGIN = 16


class WordEncoder:
    """A pretrained encoder that is read at one of its layers.

    Args:
        name: hub id or folder of an encoder, such as sentence-transformers/LaBSE.
        layer: layer whose output is read, from 1; 0: the embeddings below the first layer. None:
            two thirds of the layers, where contextual embeddings align best (Jalili Sabet et al.,
            2020, read layer 8 of 12).
        batch_size: number of sentences that are encoded at once.
        dtype: dtype of the network, by its name in torch.

    Raises:
        ZooError: an argument is unknown or outside its range.
    """

    def __init__(
        self,
        name: str,
        *,
        layer: int | None = None,
        batch_size: int = 32,
        dtype: str = "float32",
    ) -> None:
        check_numbers("Encoder of words", least=0, layer=layer)
        check_numbers("Encoder of words", least=1, batch_size=batch_size)
        self.name = name
        self.layer = layer
        self.batch_size = batch_size
        self.dtype = dtype_named(dtype)
        self._network: Any = None

    @property
    def signature(self) -> str:
        """The encoder in signatures of scores, which are equal on every machine."""
        name = portable_name(self.name)
        return name if self.layer is None else f"{name}, layer {self.layer}"

    def check(self) -> None:
        """Raise ZooError unless the encoder is a folder, in the cache, or on the hub."""
        hub.check(NOUN, self.name)

    def load(self, device: torch.device | None = None) -> None:
        """Load the weights; a second call only moves them.

        Args:
            device: device of the network; None: the CPU.

        Raises:
            ZooError: the encoder is missing or damaged, or does not have the layer.
        """
        if self._network is None:
            self.check()
            self._network = self._load_network(self.name)
        self._network.to(device or "cpu")

    def _load_network(self, name: str) -> Any:
        """Return the network; load the tokenizer and find the layer, too."""
        self._tokenizer: Any = load_tokenizer(name)
        if not self._tokenizer.is_fast:
            raise ZooError(f"The tokenizer of {name} does not count the subwords of a word.")
        config = load_part("configuration", AutoConfig.from_pretrained, name)
        layers = config.num_hidden_layers
        encoder: Any = MODEL_MAPPING.get(type(config), None)
        if config.is_encoder_decoder or encoder is None:
            raise ZooError(f"{name} is a {config.model_type}, not a {NOUN}.")
        self._layer = round(layers * 2 / 3) if self.layer is None else self.layer
        if self._layer > layers:
            raise ZooError(f"{name} has {layers} layers, but layer={self._layer}.")
        # Encoders of masked language models have no weights of the pooling layer.
        has_pooling = "add_pooling_layer" in signature(encoder).parameters
        options = {"add_pooling_layer": False} if has_pooling else {}
        network: Any = load_network(AutoModel, name, self.dtype, **options)
        return network.requires_grad_(False)

    def encode(self, sentences: Sequence[Sequence[str]]) -> list[tuple[Matrix, list[int]]]:
        """Encode sentences that do not influence one another; call ``load`` first.

        Args:
            sentences: words of each sentence.

        Returns:
            For each sentence the unit vectors (subwords, width) and the word of each subword. The
            subwords beyond the longest input of the network are left out.
        """
        # Sentences of similar length share a batch, which keeps the padding short.
        order = sorted(range(len(sentences)), key=lambda index: -len(sentences[index]))
        encoded: dict[int, tuple[Matrix, list[int]]] = {}
        for start in range(0, len(order), self.batch_size):
            batch = order[start : start + self.batch_size]
            rows = self._encode_batch([sentences[index] for index in batch])
            for index, (vectors, words) in zip(batch, rows, strict=True):
                vectors = torch.nn.functional.normalize(vectors, dim=-1)
                encoded[index] = (vectors.numpy(), words)
        return [encoded[index] for index in range(len(sentences))]

    def vectors(self, words: Sequence[str]) -> NDArray[np.float32]:
        """Encode the words of a long text, each in the context of its neighbours.

        The text is read in overlapping windows of ``WINDOW`` words. A word takes its vector, the
        mean of its subwords, from the window in which it is farthest from an inner edge. The
        weights are loaded if they are not.

        Args:
            words: words of the text.

        Returns:
            Unit vectors (words, width); zero for a word without subwords.
        """
        if self._network is None:
            self.load()
        windows = _windows(len(words))
        found: list[NDArray[np.float32]] = []
        for start in range(0, len(windows), self.batch_size):
            batch = windows[start : start + self.batch_size]
            texts = [words[first:last] for first, last, _, _ in batch]
            rows = self._encode_batch(texts)
            for (hidden, owners), (first, last, begin, end) in zip(rows, batch, strict=True):
                # the direction of a sum of subwords is that of their mean
                sums = hidden.new_zeros(last - first, hidden.shape[1])
                sums.index_add_(0, torch.tensor(owners), hidden)
                means = torch.nn.functional.normalize(sums, dim=-1)
                found.append(means[begin - first : end - first].float().numpy())
        width = self._network.config.hidden_size
        return np.concatenate([np.zeros((0, width), np.float32), *found])

    @torch.inference_mode()
    def _encode_batch(
        self, sentences: Sequence[Sequence[str]]
    ) -> Iterator[tuple[Tensor, list[int]]]:
        """Yield the vectors (subwords, width) of each sentence, and the word of each subword.

        The vectors are on the CPU.
        """
        assert self._network is not None, "call load first"
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
        hidden = output.hidden_states[self._layer].cpu().double()  # one transfer per batch
        for row in range(len(sentences)):
            words = inputs.word_ids(row)
            subwords = [index for index, word in enumerate(words) if word is not None]
            yield hidden[row, subwords], [words[index] for index in subwords]


def _windows(count: int) -> list[tuple[int, int, int, int]]:
    """Return the windows over ``count`` words: (first, last, begin, end).

    Words ``first`` to ``last`` are encoded together; those from ``begin`` to ``end`` take their
    vectors from this window.
    """
    windows: list[tuple[int, int, int, int]] = []
    begin = 0
    while begin < count:
        first = max(0, begin - MARGIN)
        last = min(first + WINDOW, count)
        end = count if last == count else last - MARGIN
        windows.append((first, last, begin, end))
        begin = end
    return windows
