"""Canary (Sekoyan et al., 2025): transcription, and translation from and into English.

The weights are read from the Hugging Face hub or from a folder, in the format of Transformers.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import transformers
from torch import Tensor
from transformers import ParakeetFeatureExtractor

from zoo.backbones.architectures.encoder_decoder.decoder import Decoder
from zoo.backbones.architectures.encoder_decoder.encoder_decoder import EncoderDecoder
from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.decoding.batches import encode_non_empty
from zoo.backbones.decoding.search import SearchConfig
from zoo.backbones.encoders.audio.spectrogram import (
    HOP,
    PRE_EMPHASIS,
    WINDOW,
    PaddedSpectrogram,
)
from zoo.backbones.pretrained.chat_templates import render
from zoo.backbones.pretrained.loading import (
    check_extractor,
    check_tokenizer,
    control_id,
    load_network,
    load_part,
    loader_errors,
    model_type,
    pad_batch,
)
from zoo.backbones.text.vocabulary import control_tokens, token_ids
from zoo.base.errors import ZooError, check_choice
from zoo.base.languages import Language
from zoo.base.types import Capability, Task
from zoo.streaming.session import Session

SUBSAMPLING = 8  # feature frames per encoder frame: three convolutions of stride 2
MIN_FEATURES = 2  # a standard deviation needs two frames
STABILISER = 1e-5  # added to the standard deviation of each mel bin

# Languages of canary-1b-v2. Other Canary models have a part of them.
LANGUAGES = (
    *("bg", "cs", "da", "de", "el", "en", "es", "et", "fi", "fr", "hr", "hu", "it"),
    *("lt", "lv", "mt", "nl", "pl", "pt", "ro", "ru", "sk", "sl", "sv", "uk"),
)


class Canary(EncoderDecoder):
    """A FastConformer encoder and a Transformer decoder, prompted with both languages.

    The backbone transcribes if source and target language are equal. Otherwise, one of the two must
    be English.

    The default alignment averages the heads of decoder layer 3, as for the other models, and
    z-scores the weights of each frame. The z-score and the search with 5 beams are simulstream's
    for Canary. No published weights have been run, so the layer is untested.
    """

    exposes: ClassVar[frozenset[Capability]] = EncoderDecoder.exposes | {Capability.TRANSCRIPT}
    frame_samples = SUBSAMPLING * HOP  # 80 ms

    def __init__(
        self,
        *,
        name: str,
        punctuation: bool = True,
        alignment: AlignmentConfig = AlignmentConfig(layer=3, normalisation="z_score"),  # noqa: B008 (frozen)
        search: SearchConfig = SearchConfig(beams=5),  # noqa: B008 (frozen)
        **options: Any,
    ) -> None:
        """Configure the backbone; ``load`` reads weights.

        Args:
            name: Hub id (nvidia/canary-1b-v2) or folder of the model.
            punctuation: Whether the prompt asks for punctuation and capital letters.
            alignment: Settings of the alignment of target tokens with encoder frames.
            search: Settings of greedy or beam search.
            options: Other arguments of ``EncoderDecoder``.
        """
        super().__init__(alignment=alignment, search=search, **options)
        self.name = name
        self.punctuation = punctuation
        self._prompts: dict[tuple[str, str], list[int]] = {}

    def check_languages(self, source: Language, target: Language) -> None:
        """Raise ZooError unless Canary transcribes or translates this pair of languages."""
        for option, language in (("source_language", source), ("target_language", target)):
            if language.code not in LANGUAGES:
                raise ZooError(
                    f"Canary does not support {language.name}; choose {option} from: "
                    f"{', '.join(LANGUAGES)}."
                )
        if source.code != target.code and "en" not in (source.code, target.code):
            raise ZooError(
                f"Canary translates from and into English only, not {source.code}-{target.code}; "
                f"choose target_language=en, or target_language={source.code} for a transcript."
            )

    def build(self) -> None:
        """Read network, tokenizer, prompt and feature extractor.

        Raises:
            ZooError: If Transformers has no Canary, a file is missing or unreadable, the model is
                not a Canary, the feature extractor or the tokenizer does not fit the network, or
                the network has another frame size or grouped attention heads.
        """
        network_class, processor_class = canary_classes()
        model_type(self.name, accepted=("canary",), noun="Canary")
        extractor = load_part(
            "feature extractor", ParakeetFeatureExtractor.from_pretrained, self.name
        )
        check_extractor(
            extractor,
            self.name,
            hop_length=HOP,
            win_length=WINDOW,
            n_fft=PaddedSpectrogram.POINTS,
            preemphasis=PRE_EMPHASIS,
        )
        self.processor = load_part(
            "tokenizer and prompt", processor_class.from_pretrained, self.name
        )
        self.tokenizer = self.processor.tokenizer
        if not isinstance(self.processor.chat_template, str):
            raise ZooError(f"{self.name} has no prompt (chat_template.jinja).")

        network = load_network(network_class, self.name, self.dtype)
        self.encoder = network.model.encoder
        self._check_encoder(extractor)
        self.spectrogram = PaddedSpectrogram(extractor.feature_size)
        self.decoder = Decoder(network.model.decoder, network.proj_out)
        self.end = control_id(network.config, "eos_token_id", self.name)
        check_tokenizer(
            self.tokenizer,
            self.name,
            scores=network.proj_out.out_features,
            tokens={str(self.tokenizer.eos_token): self.end},
        )
        self.never = sorted({*control_tokens(self.tokenizer).values()} - {self.end})

    def _check_encoder(self, extractor: Any) -> None:
        """Raise ZooError unless the encoder has frames of 80 ms and the extractor's mel bins."""
        config = self.encoder.config
        if config.subsampling_factor != SUBSAMPLING:
            raise ZooError(
                f"{self.name} has a subsampling_factor of {config.subsampling_factor}; only "
                f"{SUBSAMPLING} (frames of 80 ms) is supported."
            )
        check_extractor(extractor, self.name, feature_size=config.num_mel_bins)

    def opening(self, session: Session, task: Task) -> list[int]:
        """Return the prompt: control ids with source and target language, without timestamps.

        Args:
            session: Stream whose languages are used.
            task: Whether the text is a translation or a transcript.

        Raises:
            ZooError: If the model does not support the session's languages.
        """
        source = session.source_language
        target = source if task is Task.TRANSCRIPTION else session.target_language
        self.check_languages(source, target)
        pair = source.code, target.code
        if pair not in self._prompts:
            self._prompts[pair] = self._prompt(*pair)
        return list(self._prompts[pair])

    def _prompt(self, source: str, target: str) -> list[int]:
        """Return the ids of the model's own prompt for two language codes."""
        controls = control_tokens(self.tokenizer)
        supported = [code for code in LANGUAGES if f"<|{code}|>" in controls]
        for option, code in (("source_language", source), ("target_language", target)):
            check_choice(f"{option} of {self.name}", code, supported)

        request = {
            "type": "text",
            "source_language": source,
            "target_language": target,
            "punctuation": self.punctuation,
        }
        with loader_errors(f"The prompt of {self.name} cannot be made"):
            prompt = render(
                self.processor.chat_template,
                [{"role": "user", "content": [{"type": "audio"}, request]}],
                self.tokenizer.special_tokens_map,
            )
        return token_ids(self.tokenizer, prompt)

    def encode_audio(self, sessions: Sequence[Session], waves: Sequence[Tensor]) -> list[Tensor]:
        """Encode the kept audio of streams as one batch.

        Args:
            sessions: The streams.
            waves: Audio of each stream, (n,) samples at 16 kHz.

        Returns:
            Encoder output of each stream, (frames, width), in frames of 80 ms. A wave of n samples
            has ``ceil((n // 160) / 8)`` frames. A wave shorter than 20 ms has no frames.
        """
        weight: Tensor = self.decoder.embedding_weight
        features = [
            self.spectrogram.compute(session.backbone_state.features, wave, session.audio_start)
            for session, wave in zip(sessions, waves, strict=True)
        ]
        return encode_non_empty(
            [frames if len(frames) >= MIN_FEATURES else frames[:0] for frames in features],
            self._encode,
            empty=weight.new_zeros(0, self.encoder.config.hidden_size),
        )

    def _encode(self, features: Sequence[Tensor]) -> list[Tensor]:
        """Encode features (n, bins) of several streams as one batch: (frames, width) each."""
        weight: Tensor = self.decoder.embedding_weight
        inputs = [normalised(frames).to(weight) for frames in features]
        padded, mask = pad_batch(inputs)
        hidden = self.encoder(padded, attention_mask=mask).last_hidden_state
        lengths = [-(-len(frames) // SUBSAMPLING) for frames in inputs]  # rounded up
        return [row[:length] for row, length in zip(hidden, lengths, strict=True)]


def normalised(frames: Tensor) -> Tensor:
    """Normalise at least two frames (frames, bins) to mean 0 and deviation 1 over the utterance."""
    precise = frames.double()
    spread = precise.std(dim=0) + STABILISER
    return ((precise - precise.mean(dim=0)) / spread).float()


def canary_classes() -> tuple[Any, Any]:
    """Return the classes of network and processor.

    Raises:
        ZooError: If the installed version of Transformers has no Canary.
    """
    try:
        from transformers import CanaryForConditionalGeneration, CanaryProcessor
    except ImportError as error:
        raise ZooError(
            f"Canary needs Transformers 5.23 or newer, but {transformers.__version__} is installed."
        ) from error
    return CanaryForConditionalGeneration, CanaryProcessor
