"""FBK's Conformer (Papi et al., 2023 and 2024): the offline model of EDAtt, AlignAtt and StreamAtt.

A converted checkpoint is read from a folder (``zoo/extras/fbk_conformer/convert.py``).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor
from transformers import Speech2TextTokenizer

from zoo.backbones.architectures.encoder_decoder.encoder_decoder import EncoderDecoder
from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.decoding.batches import encode_non_empty
from zoo.backbones.decoding.search import SearchConfig
from zoo.backbones.encoders.audio.spectrogram import HOP, Filterbank, speech_to_text_features
from zoo.backbones.pretrained.loading import check_tokenizer, load_part
from zoo.backbones.pretrained.weights import load_weights, without_initial_values
from zoo.base.types import Task
from zoo.extras.fbk_conformer.network import END, PADDING, random_network, read_config
from zoo.streaming.session import Session

SUBSAMPLING = 4  # feature frames per encoder frame: two convolutions of stride 2


class FBKConformer(EncoderDecoder):
    """Conformer encoder and Transformer decoder of one language pair.

    The defaults are those of FBK-fairseq's agents. The alignment averages the heads of decoder
    layer 3 and leaves out the last encoder frame. The search has 5 beams, and a text has at least
    one token.
    """

    frame_samples = SUBSAMPLING * HOP  # 40 ms
    knob_values: ClassVar[Mapping[str, Sequence[int]]] = {"policy.frames": (2, 4, 6, 8, 10, 12, 14)}

    def __init__(
        self,
        *,
        name: str,
        alignment: AlignmentConfig = AlignmentConfig(layer=3, ignore_last=1),  # noqa: B008 (frozen)
        search: SearchConfig = SearchConfig(beams=5),  # noqa: B008 (frozen)
        **options: Any,
    ) -> None:
        """Configure the backbone; ``load`` reads weights.

        Args:
            name: Folder of the converted model.
            alignment: Settings of the alignment of target tokens with encoder frames.
            search: Settings of greedy or beam search.
            options: Other arguments of ``EncoderDecoder``.
        """
        super().__init__(alignment=alignment, search=search, **options)
        self.name = name

    def build(self) -> None:
        """Create the network as ``config.json`` describes it; read weights and tokenizer.

        Raises:
            ZooError: If the folder is no converted model, or its files are damaged or do not fit
                each other.
        """
        folder = Path(self.name)
        config = read_config(folder)
        self.tokenizer = load_part("tokenizer", Speech2TextTokenizer.from_pretrained, self.name)
        special_tokens = {"<pad>": PADDING, "</s>": END}
        check_tokenizer(
            self.tokenizer, self.name, scores=config.decoder.vocabulary, tokens=special_tokens
        )
        self.end = END
        self.never_first = [END]
        self.spectrogram = Filterbank(config.encoder.bins)
        self.statistics = config.statistics
        with without_initial_values():
            self.encoder, self.decoder = random_network(config)
        self.to(self.dtype)
        load_weights(self, folder)

    def opening(self, session: Session, task: Task) -> list[int]:
        """Return the decoder ids before the text: fairseq starts a text with its end token."""
        return [END]

    def encode_audio(self, sessions: Sequence[Session], waves: Sequence[Tensor]) -> list[Tensor]:
        """Encode the kept audio of streams; the layers after the convolutions run on one batch.

        Args:
            sessions: The streams.
            waves: Audio of each stream, (n,) samples at 16 kHz.

        Returns:
            Encoder output of each stream, (frames, width), in frames of 40 ms. A wave of n samples
            has ``ceil(n / 640)`` frames or one frame less. A wave shorter than 25 ms has no frames.
        """
        hidden = [
            self._subsample(session, wave) for session, wave in zip(sessions, waves, strict=True)
        ]
        weight = self.decoder.embedding_weight
        return encode_non_empty(hidden, self.encoder, empty=weight.new_zeros(0, weight.shape[1]))

    def _subsample(self, session: Session, wave: Tensor) -> Tensor:
        """Apply the convolutions to a wave (n,): (frames, width).

        Streams are convolved one by one, since the convolutions of a padded batch would mix the end
        of a stream with its padding.
        """
        features = self.spectrogram.compute(
            session.backbone_state.features, wave, session.audio_start
        )
        weight = self.decoder.embedding_weight
        if not len(features):
            return weight.new_zeros(0, weight.shape[1])
        return self.encoder.subsample(self._normalised(features).to(weight))

    def _normalised(self, features: Tensor) -> Tensor:
        """Normalise features (n, bins), over the training data or over the kept audio."""
        if self.statistics is None:
            return speech_to_text_features(features, mean=True, deviation=True)
        mean = features.new_tensor(self.statistics.mean)
        return (features - mean) / features.new_tensor(self.statistics.deviation)
