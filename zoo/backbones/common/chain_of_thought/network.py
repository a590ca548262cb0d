"""A causal LM that hears, as a concrete class fills it: hooks, loading, teacher forcing. Knows no search."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from zoo.backbones.base import dtype_named
from zoo.backbones.common import lora as adapters
from zoo.backbones.common.audio.spectrogram import Spectrogram
from zoo.backbones.common.chain_of_thought.data import Collator, CotBatch, analysed
from zoo.backbones.common.chain_of_thought.prompt import IGNORED, Prompt, Template
from zoo.backbones.common.lora import LoraConfig
from zoo.backbones.common.offline import Listener
from zoo.backbones.common.text.vocabulary import containing
from zoo.errors import ZooError
from zoo.streaming.session import Session


class HearingLLM(Listener):
    """An audio encoder, a projector and a causal LM, in one model of Transformers.

    template: strings of the prompt. suppress: texts; no token that contains one is ever said. dtype: of weights and
    activations. A concrete class fills ``build``, which sets ``model``, ``tokenizer`` and ``spectrogram``, and
    ``decoder``, ``prepared``, ``embeddings``, ``encode``, ``project`` and ``parts``.
    """

    model: PreTrainedModel  # the only child with weights
    tokenizer: PreTrainedTokenizerBase
    spectrogram: Spectrogram
    prompt: Prompt
    never: list[int]  # ids that are never said
    lora: LoraConfig | None = None  # of an adapter within ``model``
    adapted: ClassVar[str] = ""  # the layers that one adapts, see ``lora.inject``

    def __init__(
        self, *, template: Template, suppress: Sequence[str] = (), dtype: str = "float32"
    ) -> None:
        super().__init__()
        self.template = template
        self.suppress = suppress
        self.dtype = dtype_named(dtype)

    @abstractmethod
    def build(self) -> None:
        """Create ``model`` in ``dtype``, read weights, set ``tokenizer`` and ``spectrogram``.

        Raises ZooError on what cannot be loaded.
        """

    @property
    @abstractmethod
    def decoder(self) -> Any:
        """What runs text: ``get_input_embeddings()``, ``get_output_embeddings()`` and ``model``, the text model.

        ``model(inputs_embeds, attention_mask (B, 1, new, keys) added to the scores, position_ids (B, new),
        past_key_values, use_cache, recorder)``; its attention is ``zoo_grouped`` and its ``config`` has the shapes.
        """

    @staticmethod
    @abstractmethod
    def prepared(frames: Tensor) -> Tensor:
        """(F, bins) frames of the spectrogram to what the encoder takes of them; no learned parts."""

    @staticmethod
    @abstractmethod
    def embeddings(features: int) -> int:
        """How many speech embeddings so many feature frames give; none where they are too few."""

    @abstractmethod
    def encode(self, features: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """(F, bins) each to (T, hidden) each of the last layer, and of a middle one; each as if it were alone.

        T is ``embeddings(F)``, at least one.
        """

    @abstractmethod
    def project(self, hidden: Tensor) -> Tensor:
        """(..., hidden) of the encoder's last layer to (..., width of the LLM)."""

    @abstractmethod
    def parts(self) -> Mapping[str, Iterable[nn.Parameter]]:
        """Parameters by name: ``encoder``, ``projector``, ``decoder``, and ``lora`` where there is one."""

    def load(self) -> None:
        """Build the network and its prompt. Raises ZooError where they do not fit."""
        self.build()
        self.eval()
        self.prompt = Prompt(tokenizer=self.tokenizer, template=self.template)
        self.never = [self.prompt.audio, *containing(self.tokenizer, self.suppress)]
        if set(self.never) & set(self.prompt.separator):
            raise ZooError(
                f"The search suppresses what the separator {self.template.separator!r} is written with, so no "
                f"transcript could end; change search.suppress, now {list(self.suppress)}."
            )

    def save(self, folder: Path, dtype: torch.dtype | None = None) -> None:
        """Write model (in ``dtype``; None: as it is) and tokenizer to ``folder``, as Transformers lays them out.

        An adapter: as ``lora.save`` says.
        """
        adapters.save(self.model, folder, dtype, self.lora, self.adapted)
        self.tokenizer.save_pretrained(folder)

    def text(self, token_ids: list[int]) -> str:
        """Plain detokenisation, special tokens left out."""
        return self.prompt.text(token_ids)

    def collator(self) -> Collator:
        """Makes training batches of pieces of talks."""
        return Collator(self.prompt, self.spectrogram, type(self).prepared, type(self).embeddings)

    def forward(self, batch: CotBatch) -> dict[str, Tensor]:
        """Teacher forcing on batches of ``collator``: ``loss`` and ``token_accuracy`` over the answers.

        transcript, translation: the loss of either part.
        """
        hidden, _ = self._encoded(batch.features)
        speech = self.project(hidden)
        embeddings = self.decoder.get_input_embeddings()(batch.input_ids)
        heard = batch.input_ids == self.prompt.audio
        embeddings = embeddings.masked_scatter(heard[..., None], speech.to(embeddings.dtype))
        states = self.decoder.model(inputs_embeds=embeddings, use_cache=False).last_hidden_state
        labels = batch.labels[:, 1:]
        labelled = labels != IGNORED
        logits = self.decoder.get_output_embeddings()(states[:, :-1][labelled])
        targets, transcript = labels[labelled], batch.transcript[:, 1:][labelled]
        losses = F.cross_entropy(
            logits.to(torch.promote_types(logits.dtype, torch.float32)), targets, reduction="none"
        )
        return {
            "loss": losses.mean(),
            "transcript": losses[transcript].mean(),
            "translation": losses[~transcript].mean(),
            "token_accuracy": (logits.argmax(-1) == targets).float().mean(),
        }

    def encode_training(self, samples: Tensor, multiplier: int) -> tuple[Tensor, Tensor]:
        """(batch, n) samples to (batch, T, hidden) of the last and of a middle layer, no gradients when frozen.

        multiplier: of no account, the encoder has no blocks of chunks.
        """
        return self._encoded(analysed(self.spectrogram, self.prepared, samples).to(samples.device))

    def _encoded(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, F, bins) to (batch, T, hidden), last and middle layer."""
        trained = any(parameter.requires_grad for parameter in self.parts()["encoder"])
        with torch.set_grad_enabled(trained and torch.is_grad_enabled()):
            last, middle = self.encode(list(features.to(self.model.dtype)))
        return torch.stack(last), torch.stack(middle)

    def listen(self, sessions: Sequence[Session], waves: Sequence[Tensor]) -> list[Tensor]:
        """Speech embeddings (T, width) of each wave; none where it is too short for one."""
        looked = [
            self.prepared(
                self.spectrogram.look(session.backbone_state.features, wave, session.audio_start)
            )
            for session, wave in zip(sessions, waves, strict=True)
        ]
        device, dtype = self.model.device, self.model.dtype
        width = self.decoder.model.config.hidden_size
        speech = [torch.zeros(0, width, dtype=dtype, device=device) for _ in waves]
        live = [index for index, features in enumerate(looked) if self.embeddings(len(features))]
        if live:
            hidden, _ = self.encode([looked[index].to(device, dtype) for index in live])
            projected = self.project(torch.cat(hidden)).split([len(states) for states in hidden])
            for index, embeddings in zip(live, projected, strict=True):
                speech[index] = embeddings
        return speech


def checkpoint(model: PreTrainedModel) -> None:
    """Let training compute activations twice instead of keeping them; inputs are given no gradients for that."""
    name = "activation_checkpointing_enable"  # which older versions of Transformers know by another name
    enable = getattr(model, name if hasattr(model, name) else "gradient_checkpointing_enable")
    enable({"use_reentrant": False})
    model.disable_input_require_grads()  # which only reentrant checkpointing needs; frozen embeddings would get them
