"""Qwen3-ASR, a recogniser of 30 languages: the audio encoder of Qwen3-Omni and a Qwen3.

Its answer is a transcript. The forced beginning of the answer names the language of the speech, as
in the released code.
"""

from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType
from typing import ClassVar

import torch
import transformers
from torch import Tensor

from zoo.backbones.architectures.chain_of_thought.chain_of_thought import ChainOfThought
from zoo.backbones.architectures.chain_of_thought.prompt import Template
from zoo.backbones.architectures.thinker.chunked import ChunkedThinker
from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.decoding.search import SearchConfig
from zoo.backbones.decoding.static_steps import Capture
from zoo.backbones.encoders.encoder_memory import OFFLINE
from zoo.backbones.pretrained.lora import LoraConfig
from zoo.base.errors import ZooError
from zoo.base.languages import Language, check_transcription
from zoo.base.types import Capability, Hypothesis, Request, Task
from zoo.extras.qwen3_asr import encoder
from zoo.extras.qwen3_asr.data import TranscriptCollator
from zoo.extras.qwen3_asr.network import KIND
from zoo.streaming.session import Session, empty_token_ids

CHATML = Template(
    user="<|im_start|>system\n<|im_end|>\n<|im_start|>user\n<|audio_start|>",
    audio="<|audio_pad|>",
    direct="<|audio_end|>",
    end="<|im_end|>",
    assistant="\n<|im_start|>assistant\nlanguage {target}<asr_text>",
)


class Qwen3Asr(ChunkedThinker, ChainOfThought):
    """Qwen3-ASR as a backbone that transcribes: its target language is its source language.

    Requests for transcripts and for translations have the same answers, but translations continue
    the written prefix. A training learns transcripts of segments.
    """

    trains_on: ClassVar[str] = "SpokenSegmentConfig"
    exposes: ClassVar[frozenset[Capability]] = OFFLINE | {Capability.TRANSCRIPT}
    hub_tags = ("speech-recognition",)
    noun = KIND.noun
    chat = CHATML
    kind = KIND
    adapted = KIND.targets
    network_functions: ClassVar[ModuleType] = encoder

    def __init__(
        self,
        *,
        name: str,
        lora: LoraConfig | None = None,
        gradient_checkpointing: bool = False,
        template: Template | None = None,
        search: SearchConfig = SearchConfig(),  # noqa: B008 (frozen)
        alignment: AlignmentConfig = AlignmentConfig(layer="all"),  # noqa: B008 (frozen)
        capture: Capture = "off",
        max_tokens: int = 256,
        dtype: str = "float32",
    ) -> None:
        """Configure the backbone; ``load`` reads weights.

        Args:
            name: Hub id or folder of the weights, in the layout of Transformers.
            lora: Trainable adapter of the decoder. An adapter in ``name`` is loaded; otherwise a
                new adapter is added. None merges an adapter in ``name`` into the weights.
            gradient_checkpointing: Whether training recomputes activations instead of keeping them.
            template: Strings of the prompt, of which ``direct`` is the instruction; {target} is the
                language of the speech. None uses the published chat format.
            search: Search settings.
            alignment: Self-attention layers and heads that align tokens with speech.
            capture: ``auto`` replays decoding steps as CUDA graphs on a GPU; ``static`` computes
                steps of the same fixed shapes without graphs, on any device; ``off`` does neither.
            max_tokens: Maximum number of generated tokens per transcript, with the end token.
            dtype: Name of the floating-point type of weights and activations.

        Raises:
            ZooError: If ``max_tokens`` is below 1, or if ``dtype`` is unknown.
        """
        super().__init__(
            name=name,
            lora=lora,
            gradient_checkpointing=gradient_checkpointing,
            template=template,
            direct=True,
            search=search,
            alignment=alignment,
            capture=capture,
            max_tokens=max_tokens,
            dtype=dtype,
        )
        self.exposes = type(self).exposes  # type: ignore[misc]  # a direct answer is a transcript

    def check_languages(self, source: Language, target: Language) -> None:
        """Raise ZooError unless both languages are the same."""
        check_transcription("Qwen3-ASR", source, target)

    def build(self) -> None:
        """Load tokenizer and weights; see ``Thinker.build``.

        Raises:
            ZooError: Also if the installed version of Transformers has no Qwen3-ASR.
        """
        if self.kind.network is None:
            raise ZooError(
                f"Qwen3-ASR needs a newer Transformers than {transformers.__version__}, the "
                "installed version."
            )
        super().build()

    def collator(self) -> TranscriptCollator:  # type: ignore[override]  # of other examples
        """The function that builds training batches from spoken segments."""
        return TranscriptCollator(super().collator())

    def project(self, hidden: Tensor) -> Tensor:
        """Project hidden states (..., encoder width) of the last layer to (..., LLM width)."""
        projector = self.model.get_submodule("model.multi_modal_projector")
        projected: Tensor = projector(self.tower.ln_post(hidden))
        return projected

    @torch.inference_mode()
    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        """Transcribe the kept audio of each stream.

        Args:
            sessions: The streams of the batch.
            requests: One request per stream; the answer to a translation request continues the
                written prefix.
            needs: Optional fields of the hypotheses; only ``ALIGNMENT`` changes the computation.

        Returns:
            One transcript per request.
        """
        streams = [
            replace(session, prefix_ids=empty_token_ids())
            if request.task is Task.TRANSCRIPTION
            else session
            for session, request in zip(sessions, requests, strict=True)
        ]
        asked = [
            replace(request, task=Task.TRANSLATION, transcript_ids=None) for request in requests
        ]
        hypotheses = super().decode(streams, asked, needs)
        return [
            replace(hypothesis, transcript=self.text(hypothesis.token_ids.tolist()).strip())
            if request.task is Task.TRANSCRIPTION
            else hypothesis
            for request, hypothesis in zip(requests, hypotheses, strict=True)
        ]
