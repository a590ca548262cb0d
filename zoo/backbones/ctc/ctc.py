"""Speech recognition by a Transformers encoder with a CTC head (Graves et al., 2006).

The input features are log-mel filterbanks.
"""

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
from zoo.backbones.ctc.best_path import best_paths
from zoo.backbones.ctc.spelling import Spelling, character_tokenizer
from zoo.backbones.decoding.teacher_forcing import at_least_float32
from zoo.backbones.pretrained import hub
from zoo.backbones.pretrained.loading import (
    check_extractor,
    check_fields,
    load_network,
    load_part,
)
from zoo.backbones.pretrained.weights import save_pretrained
from zoo.base.errors import ZooError
from zoo.base.types import Capability, Hypothesis, Request, Samples, Task
from zoo.streaming.session import Session

WINDOW: Samples = 400  # 25 ms: window of a spectrum of SeamlessM4TFeatureExtractor
HOP: Samples = 160  # 10 ms: from one window to the next


@dataclass(frozen=True, slots=True)
class CTCOutput:
    """Output of the network on a batch.

    Attributes:
        lengths: (B,) number of frames of each row, without padding.
        logits: (B, frames, tokens) unnormalised scores of the tokens, the blank included.
        hidden: Hidden states before the first layer, then after each layer: (B, frames, width)
            each.
    """

    lengths: Tensor
    logits: Tensor
    hidden: tuple[Tensor, ...]


class CTC(Backbone):
    """A speech recogniser that predicts one letter or a blank per frame.

    Source and target language are equal. A frame stacks two filterbank spectra of 10 ms.

    A CTC head cannot be forced to continue a written prefix. For each request, the backbone decodes
    the best path of all kept audio and drops as many letters from its front as the prefix has.
    """

    exposes: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.TRANSCRIPT, Capability.PREFIX, Capability.AUDIO_TRIMMING}
    )
    hub_tags = ("speech-recognition",)
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
            name: Hub id or folder of a CTC model on SeamlessM4T's filterbanks, such as a
                Wav2Vec2-BERT; None creates a randomly initialised Wav2Vec2-BERT from ``config``.
            config: Fields of Transformers' ``Wav2Vec2BertConfig`` for a randomly initialised
                network.
            letters: Lower-case letters that a randomly initialised network predicts.
            dtype: Data type of weights and activations, such as float32 or bfloat16.

        Raises:
            ZooError: If ``config`` has unknown fields. For a randomly initialised network, also if
                ``letters`` is empty, or has repeated or upper-case letters.
        """
        super().__init__()
        are_distinct = len(set(letters)) == len(letters)
        are_lower_case = letters == letters.lower()
        if name is None and not (letters and are_distinct and are_lower_case):
            raise ZooError(
                f"backbone.letters are different letters in lower case, not {letters!r}."
            )
        check_fields("backbone.config", config or {}, Wav2Vec2BertConfig)
        self.name = name
        self.config = dict(config or {})
        self.letters = letters
        self.dtype = dtype_named(dtype)

    @classmethod
    def evaluation_overrides(cls, overrides: Sequence[str], folder: str) -> list[str]:
        """Return the overrides that transcribe another system's synthesised speech.

        Args:
            overrides: Ignored; overrides of the training run.
            folder: Folder of the trained weights.
        """
        return ["system=wait_k", "synthesizer=espeak", f"recogniser.{cls.weights_key}={folder}"]

    def load(self) -> None:
        """Read network, tokenizer and feature extractor, or create them.

        Raises:
            ZooError: If a file is missing or unreadable, the feature extractor computes other
                features than filterbanks, or the tokenizer has no token between words.
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
        # On CPU, eager attention is the fastest for clips of a few seconds, above all in training
        self.network.set_attn_implementation("eager")
        self.spelling = Spelling(tokenizer)
        self.eval()

    @property
    def span(self) -> tuple[Samples, Samples]:
        """Width of a frame's features, and distance from one frame to the next, in samples."""
        stride = self.extractor.stride
        width = WINDOW + (stride - 1) * HOP
        hop = stride * HOP
        return width, hop

    def save(self, folder: Path, dtype: torch.dtype | None = None) -> None:
        """Write weights, tokenizer and feature extractor in the file layout of Transformers.

        Args:
            folder: Folder to write to.
            dtype: Data type of the written parameters; None keeps the data type of each parameter.
        """
        save_pretrained(self.network, folder, dtype)
        self.spelling.tokenizer.save_pretrained(folder)
        self.extractor.save_pretrained(folder)

    @torch.inference_mode()
    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        """Transcribe the audio of each stream.

        Args:
            sessions: The streams.
            requests: Request of each stream. A translation continues the written prefix; a
                transcript has no prefix.
            needs: Ignored, since a hypothesis always has all fields that a CTC head computes.

        Returns:
            Hypothesis of each stream.
        """
        waves = [
            session.visible_audio(request.audio_end)
            for session, request in zip(sessions, requests, strict=True)
        ]
        paths = best_paths(self.network, self.extractor, waves)
        hypotheses = []
        for session, request, path in zip(sessions, requests, paths, strict=True):
            ids = self.spelling.collapsed(path.cpu())
            is_transcript = request.task is Task.TRANSCRIPTION
            prefix = session.prefix_ids[:0] if is_transcript else session.prefix_ids
            hypotheses.append(self._hypothesis(ids, prefix))
        return hypotheses

    def _hypothesis(self, ids: Tensor, prefix: Tensor) -> Hypothesis:
        """Make a hypothesis of the letters of all kept audio.

        Args:
            ids: (n,) letters and spaces of all kept audio.
            prefix: (p,) letters and spaces written before.
        """
        new_ids = ids[prefix.numel() :]
        text_ids = torch.cat([prefix.to(ids), new_ids])
        word_starts = text_ids == self.spelling.space  # a space belongs to the word after it
        word_starts[:1] = True
        return Hypothesis(
            token_ids=new_ids,
            word_starts=word_starts,
            prefix_length=prefix.numel(),
            finished=True,
            transcript=self.spelling.text(ids.tolist()),
        )

    def text(self, token_ids: list[int]) -> str:
        """Convert letter ids into a text with a space between words."""
        return self.spelling.text(token_ids)

    def forward(self, values: Tensor, mask: Tensor) -> CTCOutput:
        """Run the network on a batch.

        Args:
            values: (B, frames, bands) filterbank features from the feature extractor.
            mask: (B, frames) 1 for frames, 0 for padding.
        """
        output = self.network.base_model(values, attention_mask=mask, output_hidden_states=True)
        logits = self.network.lm_head(self.network.dropout(output.last_hidden_state))
        return CTCOutput(mask.sum(dim=1), logits, output.hidden_states)

    def loss(self, output: CTCOutput, labels: Tensor, counts: Tensor) -> Tensor:
        """Compute the CTC loss (Graves et al., 2006, section 4) per letter, in nats.

        Args:
            output: Output of ``forward`` on the batch.
            labels: (letters of all rows,) concatenated letter ids of the rows.
            counts: (B,) number of letters of each row.
        """
        log_probs = at_least_float32(output.logits).log_softmax(dim=-1)  # (B, frames, tokens)
        total = F.ctc_loss(
            log_probs.transpose(0, 1),
            labels,
            output.lengths,
            counts,
            blank=self.spelling.blank,
            reduction="sum",
            zero_infinity=True,
        )
        return total / counts.sum()
