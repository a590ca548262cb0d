"""Phi-4-Multimodal (Abouelenin et al., 2025) as in StreamUni, for speech and text only.

The backbone loads published weights, or creates a small network of the same class for training from
scratch.
"""

from collections.abc import Iterable, Sequence
from itertools import chain

import torch
from torch import Tensor, nn
from transformers import Phi4MultimodalForCausalLM, PreTrainedTokenizerFast

from zoo.backbones.architectures.chain_of_thought.chain_of_thought import ChainOfThought
from zoo.backbones.architectures.chain_of_thought.prompt import ThoughtPrompt
from zoo.backbones.decoding.causal.decoder import ATTENTION
from zoo.backbones.encoders.audio.spectrogram import HOP
from zoo.backbones.phi4_multimodal.encoder import FEATURES_PER_EMBEDDING, encode, project
from zoo.backbones.phi4_multimodal.features import LogMel
from zoo.backbones.phi4_multimodal.network import (
    TARGETS,
    audio_part,
    published_network,
    random_network,
)
from zoo.backbones.phi4_multimodal.weights import NOUN, find_published
from zoo.backbones.pretrained import hub
from zoo.backbones.pretrained import lora as adapters
from zoo.backbones.pretrained.loading import check_tokenizer, load_part
from zoo.base.errors import ZooError
from zoo.base.types import Samples


class Phi4Multimodal(ChainOfThought):
    """Phi-4-Multimodal as a backbone that transcribes, then translates.

    The audio encoder computes one speech embedding per 80 ms.

    Args:
        config: Fields of ``Phi4MultimodalConfig`` for a randomly initialised network.

    Attributes:
        model: The network, with audio encoder, projector and causal LM.
    """

    frame_samples: Samples = FEATURES_PER_EMBEDDING * HOP  # 80 ms
    noun = NOUN
    adapted = TARGETS
    uneven_parts = frozenset({"encoder"})  # it encodes recordings of each length as one batch

    model: Phi4MultimodalForCausalLM

    def build(self) -> None:
        """Load tokenizer and weights, or initialise the weights randomly.

        Raises:
            ZooError: If tokenizer, configuration or a weight is missing, if a weight has another
                shape, or if the tokenizer does not match the network.
        """
        hub.check(NOUN, self.tokenizer_source)
        self.tokenizer = load_part(
            "tokenizer", PreTrainedTokenizerFast.from_pretrained, self.tokenizer_source
        )
        self.spectrogram = LogMel()
        prompt = ThoughtPrompt(tokenizer=self.tokenizer, template=self.template)
        self.model = self._network(prompt)
        check_tokenizer(
            self.tokenizer, self.tokenizer_source, scores=self.model.config.vocab_size, tokens={}
        )
        # Applies to the causal LM; the audio encoder has an attention implementation of its own.
        self.model.config._attn_implementation = ATTENTION

    def _network(self, prompt: ThoughtPrompt) -> Phi4MultimodalForCausalLM:
        """Load published weights if ``name`` is set; otherwise initialise a network randomly."""
        if self.name is not None:
            return published_network(
                find_published(self.name), audio=prompt.audio, dtype=self.dtype, lora=self.lora
            )
        network = random_network(
            self.config, prompt, embedding_std=self.embedding_std, dtype=self.dtype
        )
        if self.lora is not None:
            adapters.inject(network, self.lora, TARGETS)
        return network

    @property
    def decoder(self) -> Phi4MultimodalForCausalLM:
        """The network itself, whose ``model`` contains the layers of the causal LM."""
        return self.model

    @staticmethod
    def prepared(frames: Tensor) -> Tensor:
        """Return the frames (F, bins) unchanged, because the encoder normalises its input."""
        return frames

    @staticmethod
    def embeddings(features: int) -> int:
        """Number of speech embeddings: one embedding per 8 feature frames, rounded up."""
        return -(-features // FEATURES_PER_EMBEDDING)

    def encode(self, features: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Encode features of several streams independently of each other.

        Args:
            features: Encoder input (F, bins) of each stream.

        Returns:
            Hidden states (``embeddings(F)``, hidden) of the last layer and of the middle layer,
            each as a list with one tensor per stream.
        """
        return encode(audio_part(self.model).encoder, features)

    def project(self, hidden: Tensor) -> Tensor:
        """Project hidden states (..., hidden) of the last encoder layer to (..., LLM width)."""
        return project(audio_part(self.model), hidden)

    def parts(self) -> dict[str, Iterable[nn.Parameter]]:
        """Parameters of ``encoder``, ``projector`` and ``decoder``, and of ``lora`` if it is set.

        The parameters of an adapter belong to ``lora``, not to ``decoder``.
        """
        audio = audio_part(self.model)
        text = self.model.model
        decoder = [text.embed_tokens, text.norm, text.layers]
        if not self.model.config.tie_word_embeddings:
            decoder.append(self.model.lm_head)
        projector = [audio.up_proj_for_speech, audio.down_proj_for_speech]
        parts: dict[str, Iterable[nn.Parameter]] = {
            "encoder": audio.encoder.parameters(),
            "projector": chain.from_iterable(layer.parameters() for layer in projector),
            "decoder": chain.from_iterable(map(adapters.others, decoder)),
        }
        if self.lora is not None:
            parts["lora"] = adapters.parameters(text.layers)
        return parts

    @torch.no_grad()
    def fit_features(self, samples: Iterable[Tensor]) -> None:
        """Estimate the mean and the standard deviation of each mel bin from training audio.

        A pretrained network keeps its own statistics.

        Args:
            samples: Waves (n,) of the training audio.

        Raises:
            ZooError: If ``samples`` contains no feature frame.
        """
        if self.name is not None:
            return

        count = 0
        total = torch.zeros(1)
        total_squares = torch.zeros(1)
        for wave in samples:
            frames = self.spectrogram.compute(self.spectrogram.open(), wave.cpu(), 0).double()
            count = count + len(frames)
            total = total + frames.sum(0)  # (bins,)
            total_squares = total_squares + frames.square().sum(0)
        if count == 0:
            raise ZooError("There is no audio to fit the features of Phi-4-Multimodal to.")

        mean = total / count
        variance = (total_squares / count - mean.square()).clamp_min(1e-4)
        standard_deviation = variance.sqrt()
        normalisation = audio_part(self.model).encoder.encoder_embedding
        normalisation.global_mean.copy_(mean)
        normalisation.global_invstd.copy_(1 / standard_deviation)
