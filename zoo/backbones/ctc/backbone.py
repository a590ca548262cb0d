"""A recogniser of Transformers with a CTC head (Graves et al., 2006) on the raw waveform. Knows no translation."""

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
    Wav2Vec2Config,
    Wav2Vec2FeatureExtractor,
    Wav2Vec2ForCTC,
)

from zoo.backbones import hub
from zoo.backbones.base import Backbone, dtype_named
from zoo.backbones.ctc.listen import best_paths
from zoo.backbones.ctc.spelling import Spelling, character_tokenizer
from zoo.backbones.seq2seq.pretrained import check_extractor, check_fields, part, weights
from zoo.errors import ZooError
from zoo.streaming.session import Session
from zoo.types import Capability, Hypothesis, Request, Samples


@dataclass(frozen=True, slots=True)
class Heard:
    """What a batch sounds like. lengths: (B,) frames that are no padding.

    logits: (B, frames, tokens). hidden: (B, frames, width) after each layer, before the first one first.
    """

    lengths: Tensor
    logits: Tensor
    hidden: tuple[Tensor, ...]


class CTC(Backbone):
    """``name``: hub id or folder of a wav2vec 2.0 for CTC, or another that hears the waveform in frames of 20 ms.

    None: random weights from ``config``, the fields of Transformers' ``Wav2Vec2Config``, with a token for each of
    ``letters``. It transcribes, so the source language is the target language. What was written is not forced: an
    answer is the best path of all kept audio from where the written tokens end.
    """

    exposes: ClassVar[frozenset[Capability]] = frozenset({Capability.TRANSCRIPT, Capability.PREFIX, Capability.RECUT})
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
        super().__init__()
        if name is None and (not letters or len(set(letters)) < len(letters) or letters != letters.lower()):
            raise ZooError(f"backbone.letters are different letters in lower case, not {letters!r}.")
        check_fields("backbone.config", config or {}, Wav2Vec2Config)
        self.name = name
        self.config = dict(config or {})
        self.letters = letters
        self.dtype = dtype_named(dtype)

    def load(self) -> None:
        """Read or create the network. Raises ZooError for what is missing, damaged or no such network."""
        tokenizer: Any
        if self.name is None:
            tokenizer = character_tokenizer(self.letters)
            self.extractor = Wav2Vec2FeatureExtractor(return_attention_mask=True)
            config = Wav2Vec2Config(**self.config, vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id)
            self.network = Wav2Vec2ForCTC(config)
            self.to(self.dtype)
        else:
            hub.check("recogniser", self.name)
            tokenizer = part("tokenizer", AutoTokenizer.from_pretrained, self.name)
            self.extractor = part("feature extractor", AutoFeatureExtractor.from_pretrained, self.name)
            check_extractor(self.extractor, self.name)
            self.network = weights(AutoModelForCTC, self.name, self.dtype)
        if self.network.main_input_name != "input_values" or tokenizer.word_delimiter_token is None:
            raise ZooError(f"{self.name} does not hear the waveform or has no token between words; it is no CTC here.")
        self.network.set_attn_implementation("eager")  # the fastest on CPU at these lengths, in training by far
        self.spelling = Spelling(tokenizer)
        self.eval()

    @property
    def span(self) -> tuple[Samples, Samples]:
        """How much a frame hears before attention, and from one to the next."""
        config = self.network.config
        heard, hop = 1, 1
        for kernel, stride in zip(config.conv_kernel, config.conv_stride, strict=True):
            heard, hop = heard + (kernel - 1) * hop, hop * stride
        return heard, hop

    def save(self, folder: Path, dtype: torch.dtype | None = None) -> None:
        """Write weights (in ``dtype``; None: as they are) and tokenizer as Transformers lays them out."""
        state = {name: tensor.to(dtype or tensor.dtype) for name, tensor in self.network.state_dict().items()}
        self.network.save_pretrained(folder, state_dict=state)
        self.spelling.tokenizer.save_pretrained(folder)
        self.extractor.save_pretrained(folder)

    @torch.inference_mode()
    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        """Transcripts of what may be looked at; of a translation, those are the same words."""
        waves = [session.look(one.audio_end) for session, one in zip(sessions, requests, strict=True)]
        paths = best_paths(self.network, self.extractor, waves)
        answers = []
        for session, request, path in zip(sessions, requests, paths, strict=True):
            ids = self.spelling.collapsed(path.cpu())
            prefix = 0 if request.stage is request.stage.TRANSCRIPT else session.prefix.numel()
            answers.append(self._hypothesis(ids, session.prefix[:prefix]))
        return answers

    def _hypothesis(self, ids: Tensor, prefix: Tensor) -> Hypothesis:
        new = ids[prefix.numel() :]
        whole = torch.cat([prefix.to(ids), new])
        starts = whole == self.spelling.space
        starts[:1] = True
        return Hypothesis(
            token_ids=new,
            word_starts=starts,
            prefix=prefix.numel(),
            finished=True,
            transcript=self.spelling.text(ids.tolist()),
        )

    def text(self, token_ids: list[int]) -> str:
        """Letters, and a space between words."""
        return self.spelling.text(token_ids)

    def forward(self, values: Tensor, mask: Tensor) -> Heard:
        """What the network makes of a batch. values: (B, n), as its feature extractor gives them. mask: (B, n), 1 where
        there is speech, 0 in padding."""
        output = self.network.base_model(values, attention_mask=mask, output_hidden_states=True)
        logits = self.network.lm_head(self.network.dropout(output.last_hidden_state))
        lengths = self.network._get_feat_extract_output_lengths(mask.sum(dim=1))
        return Heard(torch.as_tensor(lengths), logits, output.hidden_states)

    def loss(self, heard: Heard, labels: Tensor, counts: Tensor) -> Tensor:
        """CTC per letter. labels: the letters of all rows, one after the other. counts: (B,) of each."""
        scores = heard.logits.to(torch.promote_types(heard.logits.dtype, torch.float32)).log_softmax(dim=-1)
        total = F.ctc_loss(
            scores.transpose(0, 1),
            labels,
            heard.lengths,
            counts,
            blank=self.spelling.blank,
            reduction="sum",
            zero_infinity=True,
        )
        return total / counts.sum()
