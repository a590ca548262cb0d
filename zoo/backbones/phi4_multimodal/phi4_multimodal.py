"""Phi-4-Multimodal (Abouelenin et al., 2025) as StreamUni uses it: speech and text, without vision.

A small network of the same class is trained from scratch.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn
from transformers import Phi4MultimodalForCausalLM, PreTrainedTokenizerFast

from zoo.backbones.common import lora as adapters
from zoo.backbones.common.causal.decoder import ATTENTION
from zoo.backbones.common.chain_of_thought.chain_of_thought import (
    ChainOfThought,
    enable_checkpointing,
)
from zoo.backbones.common.chain_of_thought.prompt import Prompt
from zoo.backbones.common.pretrained import hub
from zoo.backbones.common.pretrained.loading import check_tokenizer, load_part
from zoo.backbones.phi4_multimodal.encoder import FEATURES_PER_EMBEDDING, encode, project
from zoo.backbones.phi4_multimodal.features import HOP, LogMel
from zoo.backbones.phi4_multimodal.network import (
    TARGETS,
    audio_part,
    published_network,
    random_network,
)
from zoo.backbones.phi4_multimodal.weights import NOUN, published
from zoo.errors import ZooError
from zoo.types import Samples


class Phi4Multimodal(ChainOfThought):
    """``config`` has fields of ``Phi4MultimodalConfig``; ``lora`` of weights by name is their
    speech adapter.
    """

    frame_samples: Samples = FEATURES_PER_EMBEDDING * HOP  # 80 ms
    noun = NOUN
    adapted = TARGETS

    model: Phi4MultimodalForCausalLM

    def build(self) -> None:
        """Read tokenizer and weights, or initialise them.

        Raises ZooError on what is missing or differs.
        """
        hub.check(NOUN, self.tokenizer_source)
        self.tokenizer = load_part(
            "tokenizer", PreTrainedTokenizerFast.from_pretrained, self.tokenizer_source
        )
        self.spectrogram = LogMel()
        prompt = Prompt(tokenizer=self.tokenizer, template=self.template)
        self.model = self._network(prompt)
        check_tokenizer(
            self.tokenizer, self.tokenizer_source, scores=self.model.config.vocab_size, tokens={}
        )
        self.model.config._attn_implementation = ATTENTION  # of text; the audio encoder has its own
        if self.gradient_checkpointing:
            enable_checkpointing(self.model)

    def _network(self, prompt: Prompt) -> Phi4MultimodalForCausalLM:
        if self.name is not None:
            return published_network(
                published(self.name), audio=prompt.audio, dtype=self.dtype, lora=self.lora
            )
        network = random_network(
            self.config, prompt, embedding_std=self.embedding_std, dtype=self.dtype
        )
        if self.lora is not None:
            adapters.inject(network, self.lora, TARGETS)
        return network

    @property
    def decoder(self) -> Phi4MultimodalForCausalLM:
        """The network itself: its ``model`` runs text."""
        return self.model

    @staticmethod
    def prepared(frames: Tensor) -> Tensor:
        """The encoder takes frames as they are."""
        return frames

    @staticmethod
    def embeddings(features: int) -> int:
        """One per 8 feature frames, the last one perhaps of fewer."""
        return -(-features // FEATURES_PER_EMBEDDING)

    def encode(self, features: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """(F, bins) each to (``embeddings(F)``, hidden) of the last and of the middle layer."""
        return encode(audio_part(self.model).encoder, features)

    def project(self, hidden: Tensor) -> Tensor:
        """(..., hidden) to (..., width of the LLM)."""
        return project(audio_part(self.model), hidden)

    def parts(self) -> dict[str, Iterable[nn.Parameter]]:
        """``encoder``, ``projector``, ``decoder`` and, apart from it, ``lora``."""
        audio, text = audio_part(self.model), self.model.model
        own = [*text.embed_tokens.parameters(), *text.norm.parameters()]
        own += [
            parameter
            for name, parameter in text.layers.named_parameters()
            if not adapters.is_adapter(name)
        ]
        own += (
            [] if self.model.config.tie_word_embeddings else list(self.model.lm_head.parameters())
        )
        parts: dict[str, Iterable[nn.Parameter]] = {
            "encoder": list(audio.encoder.parameters()),
            "projector": [
                *audio.up_proj_for_speech.parameters(),
                *audio.down_proj_for_speech.parameters(),
            ],
            "decoder": own,
        }
        return parts if self.lora is None else {**parts, "lora": adapters.parameters(text.layers)}

    @torch.no_grad()
    def fit_features(self, samples: Iterable[Tensor]) -> None:
        """Estimate mean and deviation of each bin from waves (n,) of the training audio.

        A pretrained network has its own statistics; then nothing is changed.
        """
        if self.name is not None:
            return
        count, total, squares = 0, torch.zeros(1), torch.zeros(1)
        for wave in samples:
            frames = self.spectrogram.compute(self.spectrogram.open(), wave.cpu(), 0).double()
            count, total, squares = (
                count + len(frames),
                total + frames.sum(0),
                squares + frames.square().sum(0),
            )
        if count == 0:
            raise ZooError("There is no audio to fit the features of Phi-4-Multimodal to.")
        mean = total / count
        spread = (squares / count - mean.square()).clamp_min(1e-4).sqrt()
        normal = audio_part(self.model).encoder.encoder_embedding
        normal.global_mean.copy_(mean)
        normal.global_invstd.copy_(1 / spread)
