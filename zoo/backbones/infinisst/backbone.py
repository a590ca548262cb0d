"""InfiniSST: streaming encoder, adapter and multi-turn decoder behind the backbone contract. Knows no clock."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from zoo.backbones.base import Backbone
from zoo.backbones.infinisst.adapter import Adapter
from zoo.backbones.infinisst.batch import Batch, Output
from zoo.backbones.infinisst.decoder import build_decoder
from zoo.backbones.infinisst.encoder import FRAME_SAMPLES, Encoded, EncoderConfig, StreamingEncoder
from zoo.backbones.infinisst.prompt import IGNORED, Prompt, Template
from zoo.errors import ZooError
from zoo.streaming.session import Session
from zoo.types import Capability, Hypothesis, Request

WEIGHTS = "model.safetensors"


class InfiniSST(Backbone):
    """The network of InfiniSST (sections 3.2 to 3.5). One ``forward`` and one ``decode`` over the same three children.

    encoder: its shape. decoder: hub id, local folder, or a config's fields (random weights). tokenizer: hub id or
    local folder; None: the checkpoint's. template: strings of the dialogue. checkpoint: folder with
    ``model.safetensors`` and tokenizer files; None: random (or pretrained) parts. embedding_std: of a random decoder.
    """

    exposes: ClassVar[frozenset[Capability]] = frozenset({Capability.TURNS})
    frame_samples = FRAME_SAMPLES

    encoder: StreamingEncoder
    adapter: Adapter
    decoder: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    prompt: Prompt

    def __init__(
        self,
        *,
        encoder: EncoderConfig,
        decoder: str | Mapping[str, Any],
        template: Template,
        tokenizer: str | None = None,
        checkpoint: str | None = None,
        embedding_std: float | None = None,
        dtype: str = "float32",
    ) -> None:
        super().__init__()
        if tokenizer is None and checkpoint is None:
            raise ZooError("InfiniSST needs a tokenizer: name one (hub id or folder) or a checkpoint that has it.")
        self.encoder_config = encoder
        self.decoder_source = decoder
        self.template = template
        self.tokenizer_source = tokenizer if tokenizer is not None else checkpoint
        self.checkpoint = checkpoint
        self.embedding_std = embedding_std
        self.dtype = getattr(torch, dtype)

    def load(self) -> None:
        """Create the three children and read what the constructor named. Raises ZooError on weights that do not fit."""
        self.tokenizer = AutoTokenizer.from_pretrained(self.tokenizer_source)
        self.prompt = Prompt(tokenizer=self.tokenizer, template=self.template)
        self.encoder = StreamingEncoder(self.encoder_config).to(self.dtype)
        self.decoder = build_decoder(
            self.decoder_source,
            vocabulary=len(self.tokenizer),
            embedding_std=self.embedding_std,
            dtype=self.dtype,
        )
        embedding = self.decoder.get_input_embeddings().embedding_dim
        self.adapter = Adapter(hidden=self.encoder_config.hidden, embedding=embedding).to(self.dtype)
        if self.checkpoint is not None:
            self._read(Path(self.checkpoint) / WEIGHTS)

    def save(self, folder: str | Path, dtype: torch.dtype | None = None) -> None:
        """Write ``model.safetensors`` (in ``dtype``; None: as they are) and the tokenizer to ``folder``."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        tied = self._tied()
        weights = {
            name: tensor.detach().to(dtype or tensor.dtype).contiguous().cpu()
            for name, tensor in self.state_dict().items()
            if name not in tied
        }
        save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
        self.tokenizer.save_pretrained(folder)

    def forward(self, batch: Batch) -> Output:
        """Teacher forcing over whole trajectories (section 3.4): the loss covers each turn's text and its end."""
        encoded = self.encode_training(batch.samples, batch.multiplier)
        embeddings = self.decoder.get_input_embeddings()(batch.input_ids)
        speech = self.adapter(encoded.hidden).to(embeddings.dtype)
        rows, places = (batch.speech_positions >= 0).nonzero(as_tuple=True)
        positions = batch.speech_positions[rows, places]
        embeddings = embeddings.index_put((rows, positions), speech[rows, places])
        hidden = self.decoder.model(inputs_embeds=embeddings, use_cache=False).last_hidden_state
        targets = batch.labels[:, 1:]
        labelled = targets != IGNORED
        logits = self.decoder.get_output_embeddings()(hidden[:, :-1][labelled])
        loss = F.cross_entropy(logits.to(torch.promote_types(logits.dtype, torch.float32)), targets[labelled])
        return Output(loss, logits, targets[labelled], encoded.hidden, encoded.middle)

    def encode_training(self, samples: Tensor, multiplier: int) -> Encoded:
        """(batch, n) samples from the start of a stream to (batch, n / 320, hidden), no gradients when frozen."""
        trained = any(parameter.requires_grad for parameter in self.encoder.parameters())
        with torch.set_grad_enabled(trained and torch.is_grad_enabled()):
            return self.encoder(samples.to(self.dtype), multiplier)

    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        """One turn per stream."""
        raise NotImplementedError

    def text(self, token_ids: list[int]) -> str:
        """Plain detokenisation, special tokens left out."""
        return self.tokenizer.decode(token_ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def _tied(self) -> set[str]:
        """Names in the state dict that share their storage with an earlier one."""
        seen: dict[int, str] = {}
        return {name for name, tensor in self.state_dict().items() if seen.setdefault(tensor.data_ptr(), name) != name}

    def _read(self, path: Path) -> None:
        if not path.is_file():
            raise ZooError(f"Checkpoint {str(path.parent)!r} has no {WEIGHTS}.")
        missing, unexpected = self.load_state_dict(load_file(path), strict=False)
        wrong = [*(set(missing) - self._tied()), *unexpected]
        if wrong:
            raise ZooError(f"Checkpoint {str(path.parent)!r} does not fit the network: {', '.join(sorted(wrong)[:5])}.")
