"""Speech2Text (Wang et al., 2020): fairseq's small speech translation models.

The weights are read from the Hugging Face hub or from a folder.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from torch import Tensor
from transformers import (
    Speech2TextFeatureExtractor,
    Speech2TextForConditionalGeneration,
    Speech2TextTokenizer,
)

from zoo.backbones.architectures.encoder_decoder.decoder import Decoder
from zoo.backbones.architectures.encoder_decoder.encoder_decoder import EncoderDecoder
from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.decoding.batches import encode_non_empty
from zoo.backbones.decoding.search import SearchConfig
from zoo.backbones.encoders.audio.spectrogram import HOP, Filterbank, speech_to_text_features
from zoo.backbones.pretrained.loading import (
    check_extractor,
    check_tokenizer,
    control_id,
    load_network,
    load_part,
    model_type,
    run_layers,
)
from zoo.base.errors import ZooError
from zoo.base.types import Task
from zoo.streaming.session import Session

SUBSAMPLING = 4  # feature frames per encoder frame: two convolutions of stride 2


class SpeechToText(EncoderDecoder):
    """An encoder-decoder that translates or transcribes speech, by a small Speech2Text model.

    A model supports one language pair or several target languages. With several target languages,
    the decoder input begins with a token of the target language.

    The defaults are AlignAtt's in FBK-fairseq for these models. The alignment averages the heads of
    decoder layer 3 and leaves out the last encoder frame. The search has 5 beams.
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
            name: Hub id (facebook/s2t-small-mustc-en-de-st) or folder of the model.
            alignment: Settings of the alignment of target tokens with encoder frames.
            search: Settings of greedy or beam search.
            options: Other arguments of ``EncoderDecoder``.
        """
        super().__init__(alignment=alignment, search=search, **options)
        self.name = name

    def build(self) -> None:
        """Read network, tokenizer and feature extractor.

        Raises:
            ZooError: If a file is missing or unreadable, the model is not a Speech2Text, the
                feature extractor or the tokenizer does not fit the network, or the encoder does not
                have two subsampling layers.
        """
        model_type(self.name, accepted=("speech_to_text",), noun="Speech2Text")
        extractor = load_part(
            "feature extractor", Speech2TextFeatureExtractor.from_pretrained, self.name
        )
        check_extractor(extractor, self.name)
        self.tokenizer = load_part("tokenizer", Speech2TextTokenizer.from_pretrained, self.name)
        network = load_network(Speech2TextForConditionalGeneration, self.name, self.dtype)
        encoder = network.model.encoder
        if 2 ** len(encoder.conv.conv_layers) != SUBSAMPLING:
            raise ZooError(
                f"{self.name} has {len(encoder.conv.conv_layers)} subsampling layers; only 2 "
                "(frames of 40 ms) are supported."
            )
        self.end = control_id(network.config, "eos_token_id", self.name)
        special_tokens = {str(self.tokenizer.eos_token): self.end}
        check_tokenizer(
            self.tokenizer, self.name, scores=network.lm_head.out_features, tokens=special_tokens
        )
        self.spectrogram = Filterbank(extractor.num_mel_bins)
        normalise = extractor.do_ceptral_normalize
        self.normalisation = {
            "mean": normalise and extractor.normalize_means,
            "deviation": normalise and extractor.normalize_vars,
        }
        self.start = control_id(network.config, "decoder_start_token_id", self.name)
        self.encoder = encoder
        self.decoder = Decoder(network.model.decoder, network.lm_head)

    def opening(self, session: Session, task: Task) -> list[int]:
        """Return the control ids before the text: start, and the target language if it is a token.

        Args:
            session: Stream whose target language is used.
            task: Ignored, since a model has one task.

        Raises:
            ZooError: If the model does not support the session's target language.
        """
        languages = self.tokenizer.lang_code_to_id
        if not languages:
            return [self.start]
        if session.target_language.code not in languages:
            raise ZooError(
                f"{self.name} does not write {session.target_language.name}; choose "
                f"target_language from: {', '.join(sorted(languages))}."
            )
        return [self.start, languages[session.target_language.code]]

    def encode_audio(self, sessions: Sequence[Session], waves: Sequence[Tensor]) -> list[Tensor]:
        """Encode the kept audio of streams; the layers after the convolutions run on one batch.

        Args:
            sessions: The streams.
            waves: Audio of each stream, (n,) samples at 16 kHz.

        Returns:
            Encoder output of each stream, (frames, width), in frames of 40 ms. A wave of n samples
            has ``ceil(n / 640)`` frames or one frame less. A wave shorter than 25 ms has no frames.
        """
        encoder = self.encoder
        hidden = [
            self._subsample(session, wave) for session, wave in zip(sessions, waves, strict=True)
        ]
        return encode_non_empty(
            hidden,
            partial(run_layers, encoder.layers, encoder.layer_norm, encoder.config),
            empty=encoder.layer_norm.weight.new_zeros(0, encoder.config.d_model),
        )

    def _subsample(self, session: Session, wave: Tensor) -> Tensor:
        """Apply the convolutions to a wave (n,) and add position embeddings: (frames, width).

        Streams are convolved one by one, since the convolutions of a padded batch would mix the end
        of a stream with its padding.
        """
        encoder = self.encoder
        features = self.spectrogram.compute(
            session.backbone_state.features, wave, session.audio_start
        )
        weight: Tensor = encoder.layer_norm.weight
        if not len(features):
            return weight.new_zeros(0, encoder.config.d_model)

        normalised = speech_to_text_features(features, **self.normalisation).to(weight)
        hidden = encoder.conv(normalised[None]) * encoder.embed_scale  # (1, frames, width)
        padding_mask = hidden.new_zeros(hidden.shape[:2]).long()  # (1, frames): no padding
        frames: Tensor = (hidden + encoder.embed_positions(padding_mask))[0]
        return frames
