"""An offline encoder-decoder behind the backbone contract: hears all kept audio anew, continues what was written.

Knows neither a network's features nor its vocabulary: a concrete class fills ``build``, ``listen`` and ``opening``.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from zoo.backbones.base import Backbone
from zoo.backbones.search import Answer, Context, SearchConfig, search
from zoo.backbones.seq2seq.alignment import AlignmentConfig
from zoo.backbones.seq2seq.continuation import Continuation
from zoo.backbones.seq2seq.decoder import Decoder
from zoo.backbones.vocabulary import Vocabulary, containing
from zoo.errors import ZooError, unknown
from zoo.streaming.session import Session
from zoo.types import Capability, Hypothesis, Request, Samples, Stage, UnitKind


@dataclass(slots=True)
class StreamState:
    """What one stream keeps between looks.

    memory: (frames, width), what was heard last. heard: first sample and number of samples it was made from.
    features: of the concrete class, such as features of audio that is still kept.
    """

    memory: Tensor | None = None
    heard: tuple[Samples, Samples] | None = None
    features: Any = None


class Seq2Seq(Backbone):
    """An encoder-decoder whose cross-attention aligns target tokens with frames of its encoder.

    search: how an answer is generated. alignment: what is told about it. max_tokens: an answer has at most so many new
    ids, its end included. dtype: of weights and activations.

    ``build`` sets ``decoder``, ``tokenizer`` and ``end`` (the id that closes a text), and may fill ``never`` (ids
    never said).
    """

    exposes: ClassVar[frozenset[Capability]] = frozenset({Capability.ALIGNMENT, Capability.PREFIX, Capability.RECUT})

    decoder: Decoder
    tokenizer: PreTrainedTokenizerBase
    end: int

    def __init__(
        self,
        *,
        search: SearchConfig = SearchConfig(),  # noqa: B008 (frozen)
        alignment: AlignmentConfig = AlignmentConfig(),  # noqa: B008 (frozen)
        max_tokens: int = 200,
        dtype: str = "float32",
    ) -> None:
        super().__init__()
        if max_tokens < 1:
            raise ZooError(f"An encoder-decoder needs max_tokens of at least 1, not {max_tokens}.")
        if not isinstance(getattr(torch, dtype, None), torch.dtype):
            raise unknown("dtype", dtype, ("float32", "bfloat16", "float16", "float64"))
        self.search = search
        self.alignment = alignment
        self.max_tokens = max_tokens
        self.dtype: torch.dtype = getattr(torch, dtype)
        self.never: list[int] = []
        self._vocabularies: dict[UnitKind, Vocabulary] = {}

    @abstractmethod
    def build(self) -> None:
        """Create modules as children, in ``dtype``, read weights, and set ``decoder``, ``tokenizer`` and ``end``.

        Raises ZooError on what cannot be loaded.
        """

    @abstractmethod
    def listen(self, sessions: Sequence[Session], waves: Sequence[Tensor]) -> list[Tensor]:
        """Encoder memory (frames, width) of each wave (n,), as a batch; no frames where a wave is too short for one.

        A wave is the front of its session's kept audio; frame i of a memory stands for samples from
        i x ``frame_samples`` on. Frames beyond the wave (Whisper's 30 s) are attended to, but not aligned with.
        ``session.backbone.features`` may keep what the next look can use again.
        """

    @abstractmethod
    def opening(self, session: Session, stage: Stage) -> list[int]:
        """Decoder ids before the text, at least one: start, language, task."""

    def load(self) -> None:
        """Build the network and check what was configured against it. Raises ZooError where it does not fit."""
        self.build()
        self.eval()
        self._heads = self.alignment.chosen(layers=self.decoder.depth, heads=self.decoder.heads)
        self.never = [*self.never, *containing(self.tokenizer, self.search.suppress)]

    def open(self, session: Session) -> StreamState:
        """Nothing heard yet."""
        return StreamState()

    def vocabulary(self, session: Session, stage: Stage) -> Vocabulary:
        """What tokens of an answer are: by the unit of the target language, of the source's for a transcript."""
        unit = (session.source if stage is Stage.TRANSCRIPT else session.target).unit
        if unit not in self._vocabularies:
            self._vocabularies[unit] = Vocabulary(self.tokenizer, unit)
        return self._vocabularies[unit]

    @torch.inference_mode()
    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        """Hear all kept audio (once per look), then continue the written prefix, which is forced in one pass."""
        raise NotImplementedError

    def transcribe(
        self, sessions: Sequence[Session], requests: Sequence[Request], memories: Sequence[Tensor]
    ) -> list[Hypothesis]:
        """Answer TRANSCRIPT requests (for classes that expose it): source tokens, no prefix, ``transcript`` set.

        Here by the decoder itself after ``opening(session, Stage.TRANSCRIPT)``; a network with other means overrides.
        memories: (frames, width) each, at least one frame.
        """
        raise NotImplementedError

    def text(self, token_ids: list[int]) -> str:
        """Plain detokenisation, special tokens left out."""
        return str(self.tokenizer.decode(token_ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))
