"""A recogniser of Transformers with a CTC head (Graves et al., 2006) on log-mel filterbanks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import (
    AutoFeatureExtractor,
    AutoModelForCTC,
    AutoTokenizer,
    SeamlessM4TFeatureExtractor,
    Wav2Vec2BertConfig,
    Wav2Vec2BertForCTC,
)

from zoo.backbones.base import Backbone, dtype_named
from zoo.backbones.common.pretrained import hub
from zoo.backbones.common.pretrained.loading import (
    check_extractor,
    check_fields,
    load_network,
    load_part,
)
from zoo.backbones.common.pretrained.weights import save_pretrained
from zoo.backbones.common.teacher_forcing import at_least_float32
from zoo.backbones.ctc.best_path import best_paths
from zoo.backbones.ctc.spelling import Spelling, character_tokenizer
from zoo.errors import ZooError
from zoo.streaming.session import Session
from zoo.types import Capability, Hypothesis, Request, Samples, Task

WINDOW: Samples = 400  # of a spectrum of SeamlessM4TFeatureExtractor
HOP: Samples = 160


@dataclass(frozen=True, slots=True)
class CTCOutput:
    """Output of the network on a batch.

    Attributes:
        lengths: (B,) frames that are no padding.
        logits: (B, frames, tokens).
        hidden: (B, frames, width) before the first layer, then after each layer.
    """

    lengths: Tensor
    logits: Tensor
    hidden: tuple[Tensor, ...]


class CTC(Backbone):
    """Transcribes by letters; source and target language are the same.

    The input are log energies of mel bands, two spectra of 10 ms per frame. The written prefix is
    not forced: an answer is the best path of all kept audio, after as many tokens as were written.
    """

    exposes: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.TRANSCRIPT, Capability.PREFIX, Capability.AUDIO_TRIMMING}
    )
    frame_samples: Samples = 320

    network: Any
    spelling: Spelling

    def __init__(
        self,
        *,
        name: str | None,
        config: Mapping[str, Any] | None = None,
        letters: str = "abcdefghijklmnopqrstuvwxyz",
        dtype: str = "float32",
    ) -> None:
        """Configure the backbone; ``load`` reads weights.

        Args:
            name: Hub id or folder of a Wav2Vec2-BERT for CTC, or of another network on the same
                filterbanks; None: randomly initialised by ``config``.
            config: Fields of Transformers' ``Wav2Vec2BertConfig``.
            letters: Tokens of a randomly initialised network, in lower case.
            dtype: Of weights and activations.

        Raises:
            ZooError: For repeated or upper-case letters and unknown fields.
        """
        super().__init__()
        if name is None and (
            not letters or len(set(letters)) < len(letters) or letters != letters.lower()
        ):
            raise ZooError(
                f"backbone.letters are different letters in lower case, not {letters!r}."
            )
        check_fields("backbone.config", config or {}, Wav2Vec2BertConfig)
        self.name = name
        self.config = dict(config or {})
        self.letters = letters
        self.dtype = dtype_named(dtype)

    @classmethod
    def evaluation_command(cls, overrides: Sequence[str], folder: str) -> str:
        """Transcription of the synthesised speech of another system."""
        weights = f"recogniser.{cls.weights_key}={folder}"
        return f"python evaluate.py system=wait_k synthesizer=espeak {weights}"

    def load(self) -> None:
        """Read or create the network.

        Raises ZooError for what is missing, damaged or of another kind.
        """
        tokenizer: Any
        if self.name is None:
            tokenizer = character_tokenizer(self.letters)
            self.extractor = SeamlessM4TFeatureExtractor()
            config = Wav2Vec2BertConfig(
                **self.config, vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id
            )
            self.network = Wav2Vec2BertForCTC(config)
            self.to(self.dtype)
        else:
            hub.check("recogniser", self.name)
            tokenizer = load_part("tokenizer", AutoTokenizer.from_pretrained, self.name)
            self.extractor = load_part(
                "feature extractor", AutoFeatureExtractor.from_pretrained, self.name
            )
            check_extractor(self.extractor, self.name)
            self.network = load_network(AutoModelForCTC, self.name, self.dtype)
        if (
            not isinstance(self.extractor, SeamlessM4TFeatureExtractor)
            or tokenizer.word_delimiter_token is None
        ):
            raise ZooError(
                f"{self.name} has no filterbank features or no token between words, so it does not "
                "fit as CTC."
            )
        # the fastest on CPU at these lengths, in training by far
        self.network.set_attn_implementation("eager")
        self.spelling = Spelling(tokenizer)
        self.eval()

    @property
    def span(self) -> tuple[Samples, Samples]:
        """Receptive field of a frame before attention, and samples from one frame to the next."""
        return WINDOW + (self.extractor.stride - 1) * HOP, self.extractor.stride * HOP

    def save(self, folder: Path, dtype: torch.dtype | None = None) -> None:
        """Write weights, tokenizer and feature extractor as Transformers lays them out."""
        save_pretrained(self.network, folder, dtype)
        self.spelling.tokenizer.save_pretrained(folder)
        self.extractor.save_pretrained(folder)

    @torch.inference_mode()
    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        """Transcripts of the visible audio; a translation has the same words."""
        waves = [
            session.visible_audio(one.audio_end)
            for session, one in zip(sessions, requests, strict=True)
        ]
        paths = best_paths(self.network, self.extractor, waves)
        answers = []
        for session, request, path in zip(sessions, requests, paths, strict=True):
            ids = self.spelling.collapsed(path.cpu())
            prefix = 0 if request.task is Task.TRANSCRIPTION else session.prefix_ids.numel()
            answers.append(self._hypothesis(ids, session.prefix_ids[:prefix]))
        return answers

    def _hypothesis(self, ids: Tensor, prefix: Tensor) -> Hypothesis:
        new = ids[prefix.numel() :]
        whole = torch.cat([prefix.to(ids), new])
        starts = whole == self.spelling.space
        starts[:1] = True
        return Hypothesis(
            token_ids=new,
            word_starts=starts,
            prefix_length=prefix.numel(),
            finished=True,
            transcript=self.spelling.text(ids.tolist()),
        )

    def text(self, token_ids: list[int]) -> str:
        """Letters, and a space between words."""
        return self.spelling.text(token_ids)

    def forward(self, values: Tensor, mask: Tensor) -> CTCOutput:
        """Run the network on a batch.

        Args:
            values: (B, frames, bands) of its feature extractor.
            mask: (B, frames), 1 inside, 0 in padding.
        """
        output = self.network.base_model(values, attention_mask=mask, output_hidden_states=True)
        logits = self.network.lm_head(self.network.dropout(output.last_hidden_state))
        return CTCOutput(mask.sum(dim=1), logits, output.hidden_states)

    def loss(self, output: CTCOutput, labels: Tensor, counts: Tensor) -> Tensor:
        """CTC loss per letter.

        Args:
            output: Of ``forward``.
            labels: Letters of all rows, one after the other.
            counts: (B,) letters of each row.
        """
        scores = at_least_float32(output.logits).log_softmax(dim=-1)
        total = F.ctc_loss(
            scores.transpose(0, 1),
            labels,
            output.lengths,
            counts,
            blank=self.spelling.blank,
            reduction="sum",
            zero_infinity=True,
        )
        return total / counts.sum()
