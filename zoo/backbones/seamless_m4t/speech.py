"""SeamlessM4T, first version, which speaks what it writes; the published ones and a reduced one. Knows no policy."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import SeamlessM4TForSpeechToSpeech, SeamlessM4TModel, SeamlessM4TTokenizer

from zoo.backbones.base import Units, Voiced
from zoo.backbones.common.alignment import AlignmentConfig
from zoo.backbones.common.audio.spectrogram import Filterbank
from zoo.backbones.common.encoder_decoder.continuation import Branch
from zoo.backbones.common.pretrained.loading import part, weights
from zoo.backbones.common.search import SearchConfig
from zoo.backbones.seamless_m4t.network import random_network, save_network
from zoo.backbones.seamless_m4t.seamless_m4t import ALIGNMENT, SEARCH, STRIDE, SeamlessM4T
from zoo.backbones.seamless_m4t.speaker import Languages, UnitSpeaker
from zoo.backbones.seamless_m4t.training import SpeechTraining
from zoo.backbones.seamless_m4t.weights import check_version, take_vocoder
from zoo.data.units import FILE as UNITS_FILE
from zoo.data.units import Codebook
from zoo.errors import ZooError
from zoo.languages import Language
from zoo.streaming.session import Session, SpeechRequest
from zoo.types import Capability, Hypothesis, Samples


class SeamlessM4TSpeech(SpeechTraining):
    """``name``: a SeamlessM4T v1 of the hub (facebook/hf-seamless-m4t-medium or -large) or a folder that has one.

    name=None: random weights by ``config``, fields of Transformers' ``SeamlessM4TConfig``, and the ``tokenizer`` of a
    folder (None: name's). vocoder: another model whose vocoder is taken. reader: the text encoder, too. voice: which
    speaker of the vocoder. max_units: the speech of a text has at most so many units. The rest: see ``SeamlessM4T``.
    """

    exposes: ClassVar[frozenset[Capability]] = SeamlessM4T.exposes | {Capability.SPEECH}
    weights_key = "name"
    codebook: Codebook | None = None  # of a small model: the units of its target speech

    def __init__(
        self,
        *,
        name: str | None = None,
        config: Mapping[str, Any] | None = None,
        tokenizer: str | None = None,
        vocoder: str | None = None,
        reader: bool = False,
        voice: int = 0,
        max_units: int = 1024,
        alignment: AlignmentConfig = ALIGNMENT,
        search: SearchConfig = SEARCH,
        max_tokens: int = 128,
        dtype: str = "float32",
    ) -> None:
        if name is None and (config is None or tokenizer is None):
            raise ZooError(
                "SeamlessM4T needs backbone.name, or backbone.config and backbone.tokenizer."
            )
        source = str(tokenizer or name)
        super().__init__(
            name=source, alignment=alignment, search=search, max_tokens=max_tokens, dtype=dtype
        )
        self.name = name
        self.config = config or {}
        self.tokenizer_source = source
        self.vocoder_source = vocoder
        self.with_reader = reader
        self.voice = voice
        self.max_units = max_units

    @property
    def title(self) -> str:
        """What it is called in messages."""
        return self.name or "The SeamlessM4T of random weights"

    @property
    def unit_samples(self) -> Samples:
        """Samples of a unit frame."""
        return self.speaker.unit_samples

    def network(self) -> Any:
        """The network of Transformers with its weights; sets ``tokenizer`` and ``spectrogram`` on the way.

        Raises ZooError for the second version, whose text-to-unit model attends to no text.
        """
        if self.name is not None:
            check_version(self.name)
        self.tokenizer = part(
            "tokenizer", SeamlessM4TTokenizer.from_pretrained, self.tokenizer_source
        )
        if self.name is None:
            network = random_network(self.config, self.tokenizer, dtype=self.dtype)
            self.spectrogram = Filterbank(network.config.feature_projection_input_dim // STRIDE)
            return network
        self.hear_as(self.name)
        return weights(
            SeamlessM4TModel if self.with_reader else SeamlessM4TForSpeechToSpeech,
            self.name,
            self.dtype,
        )

    def take(self, network: Any) -> None:
        """Take over a network's parts and what its generation_config tells. Raises ZooError where it does not fit."""
        super().take(network)
        if self.vocoder_source is not None:
            take_vocoder(network, self.vocoder_source, self.dtype)
        self.speaker = UnitSpeaker(
            network.t2u_model,
            network.vocoder,
            languages=Languages.told(self.title, network.generation_config),
            voice=self.voice,
            max_units=self.max_units,
        )
        if self.with_reader:
            self.reader = network.text_encoder
        spoken_by = self.vocoder_source or self.name
        if spoken_by is not None and (Path(spoken_by) / UNITS_FILE).is_file():
            self.codebook = Codebook.read(Path(spoken_by))
        self._whole = (network,)  # of the same modules; not one of them a second time

    def parts(self) -> dict[str, Iterable[nn.Parameter]]:
        """Parameters by name: ``encoder``, ``adaptor``, ``decoder``, ``t2u``, ``vocoder``; perhaps ``reader``.

        The embeddings of texts, which reader and decoder share, are the decoder's.
        """
        parts = dict(super().parts())
        spoken = {"t2u": self.speaker.t2u, "vocoder": self.speaker.vocoder}
        parts |= {name: list(part.parameters()) for name, part in spoken.items()}
        if self.with_reader:
            shared = set(parts["decoder"])
            parts["reader"] = [
                parameter for parameter in self.reader.parameters() if parameter not in shared
            ]
        return parts

    def fit_units(self, waves: Iterable[Tensor]) -> None:
        """Take the codebook from target speech, waves (n,); a vocoder that was trained before keeps its own units."""
        if self.name is None and self.vocoder_source is None:
            self.codebook = Codebook.fit(
                waves, units=self.speaker.vocoder.config.unit_hifi_gan_vocab_size
            )

    def save(self, folder: Path, dtype: torch.dtype | None = None) -> None:
        """Write network, tokenizer and feature extractor as Transformers lays them out, and the codebook beside."""
        save_network(self._whole[0], self.tokenizer, folder, dtype)
        if self.codebook is not None:
            self.codebook.save(folder)

    def check_speech(self, language: Language, *, layer: int | None) -> None:
        """Raise ZooError for a language that it does not speak, and for a layer that it lacks."""
        self.speaker.check(language, layer=layer)

    def commit(self, session: Session, hypothesis: Hypothesis, tokens: int) -> None:
        """What was kept for the end of the text is not needed any more."""
        session.backbone_state.branch = None

    @torch.inference_mode()
    def generate_units(
        self, writes: Sequence[SpeechRequest], *, layer: int | None, close: bool
    ) -> list[Units]:
        """Units of each stream's kept and written text: see ``Speaking``.

        The state that follows for the end is one more position of the text decoder, after the tokens that are written.
        """
        languages = [write.session.target_language for write in writes]
        return self.speaker.units(self.fed(writes, close=close), languages, layer=layer)

    def fed(self, writes: Sequence[SpeechRequest], *, close: bool) -> list[Tensor]:
        """(opening + kept + written, width) each, and one more where it is closed: what text-to-unit models are fed."""
        states = [_states(write) for write in writes]
        return (
            [torch.cat(pair) for pair in zip(states, self._ends(writes), strict=True)]
            if close
            else states
        )

    def _ends(self, writes: Sequence[SpeechRequest]) -> list[Tensor]:
        """(1, width) each: what the text decoder makes of an end after the written tokens, a batch per look."""
        ends: dict[int, Tensor] = {}
        branches: list[Branch] = [write.session.backbone_state.branch for write in writes]
        for texts in {id(branch.texts): branch.texts for branch in branches}.values():
            here = {
                branch.stream: index
                for index, branch in enumerate(branches)
                if branch.texts is texts
            }
            places = [branches[0].places[:0]] * texts.streams
            for stream, index in here.items():
                places[stream] = branches[index].places[: writes[index].tokens]
            new = texts.end_with([self.end] * texts.streams, places)
            ends |= {
                index: texts.states(stream, new[stream])[-1:] for stream, index in here.items()
            }
        return [ends[index] for index in range(len(writes))]

    @torch.inference_mode()
    def vocode(self, units: Sequence[Tensor], language: Language) -> list[Voiced]:
        """Speech of (n_i,) unit ids, in the voice of a language."""
        return self.speaker.vocode(units, language)


def _states(write: SpeechRequest) -> Tensor:
    """(opening + prefix + tokens, width) of the text that is kept once the write has joined it."""
    hypothesis = write.hypothesis
    if hypothesis.decoder_states is None:
        raise ValueError("The backbone answered without the states it was asked for.")
    return hypothesis.decoder_states[
        : len(hypothesis.decoder_states) - hypothesis.num_new_tokens + write.tokens
    ]
