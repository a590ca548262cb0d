"""From states of a frozen text decoder to speech units: what a text-to-unit model (T2U) predicts.

Guided attention is supervision of *training* alone: the synthesiser's word times say which word a
unit belongs to, and the cross-attention of the last layer is pulled to that word, so that SimulU
can read off it which units to cut. The policy that streams is training-free.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from zoo.backbones.base import Backbone
from zoo.backbones.common.teacher_forcing import IGNORED, TensorBatch
from zoo.backbones.common.text.vocabulary import Vocabulary
from zoo.backbones.seamless_m4t.data import Collator
from zoo.backbones.seamless_m4t.encoder import training_features
from zoo.backbones.seamless_m4t.languages import SpokenLanguages
from zoo.backbones.seamless_m4t.objectives.attention_guide import guide_loss
from zoo.backbones.seamless_m4t.objectives.text_copy import (
    TextIds,
    decoder_states,
    encode_text,
    padded,
    unlabelled_language,
    with_text_encoder,
)
from zoo.backbones.seamless_m4t.objectives.unit_vocoder import fit_units
from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.data.clips import Clip, ClipConfig
from zoo.data.sampling import Sampler
from zoo.data.talks import Talk, Word
from zoo.data.units import Codebook, collapsed
from zoo.errors import ZooError, unknown_choice
from zoo.objectives.base import Objective
from zoo.types import SAMPLE_RATE, Samples, Seconds, UnitKind


@dataclass
class UnitBatch(TensorBatch):
    """Clips with source audio first, then clips whose text the text encoder reads.

    Attributes:
        padding: Id of padding in texts.
        features: (B1, F, width) of source audio.
        lengths: (B1,) features that are no padding.
        encoder_ids: (B2, S) input of the text encoder.
        text: (batch, T) input of the text decoder.
        text_lengths: (batch,) ids of ``text`` that are no padding.
        inputs: (batch, U) input of T2U.
        labels: (batch, U) id that each input predicts.
        word_mask: (batch, U, T) bool: the decoder's positions of the word that the predicted unit
            belongs to; empty rows for what is no unit.
    """

    padding: int
    features: Tensor
    lengths: Tensor
    encoder_ids: Tensor
    text: Tensor
    text_lengths: Tensor
    inputs: Tensor
    labels: Tensor
    word_mask: Tensor


class TextToUnit(Objective):
    """Cross-entropy of the collapsed units of clips, and guided attention.

    Clips have down to one word: cascades that synthesise nothing but new words are trained for
    that, and are compared fairly.

    Args:
        speech: Share of the clips whose text decoder attends to their source audio; the others
            attend to the text encoder, as in TTS.
        ahead: Most seconds of source audio beyond the words, as audio not translated yet.
        open: Share of the clips whose text has no end, as a text in the middle of a talk.
        label_smoothing: Of the cross-entropy.
        noise: Share of the input units that are replaced by random ones, so that the model relies
            on the text more than on its previous units.
        guide: Weight of the guide of the last layer's attention to the word of a unit; 0: none.
        state: The decoder state of a token: 0: its own; -1: the state that predicts it (fewer wrong
            words on sentences; more wrong words when streaming).
        sampling: The clips to train on.
    """

    def __init__(
        self,
        *,
        speech: float = 0.5,
        ahead: Seconds = 1.5,
        open: float = 0.5,
        label_smoothing: float = 0.05,
        noise: float = 0.1,
        guide: float = 0.2,
        state: Literal[0, -1] = 0,
        sampling: ClipConfig = ClipConfig(),  # noqa: B008 (frozen)
    ) -> None:
        super().__init__(sampling)
        shares = {
            "speech": speech,
            "open": open,
            "label_smoothing": label_smoothing,
            "noise": noise,
        }
        for name, share in shares.items():
            if not 0 <= share <= 1:
                raise ZooError(f"text_to_unit.{name} is a share, from 0 to 1, not {share}.")
        for name, least in (("ahead", ahead), ("guide", guide)):
            if least < 0:
                raise ZooError(f"text_to_unit.{name} is at least 0, not {least}.")
        if state not in (0, -1):
            raise unknown_choice("text_to_unit.state", state, (0, -1))
        self.speech = speech
        self.ahead = ahead
        self.open = open
        self.label_smoothing = label_smoothing
        self.noise = noise
        self.guide = guide
        self.state = state
        self._collate: UnitCollator | None = None

    def prepare(
        self, talks: Sequence[Talk], backbone: Backbone, samplers: Sequence[Sampler] = ()
    ) -> None:
        """Take the backbone's ids and units; raises ZooError for a backbone without one of them."""
        speaking = with_text_encoder(backbone, objective="text_to_unit")
        fit_units(speaking, samplers)
        self._collate = UnitCollator.of(speaking, state=self.state)
        if self.guide:  # other implementations return no attention weights
            speaking.speaker.t2u.set_attn_implementation("eager")

    def batch(self, examples: Sequence[Clip]) -> UnitBatch:
        """All random choices are a function of the clips alone."""
        assert self._collate is not None, "prepare comes first"
        seed = zlib.crc32(" ".join(clip.excerpt.text for clip in examples).encode())
        random = np.random.default_rng(seed)

        order = random.permutation(len(examples))
        clips = [self._extended(examples[place], random) for place in order]
        opened = random.random(len(clips)) < self.open
        with_audio = int(random.binomial(len(clips), self.speech))
        batch = self._collate(clips, with_audio=with_audio, opened=opened.tolist())
        return replace(batch, inputs=self._collate.noisy(batch.inputs, self.noise, random))

    def _extended(self, clip: Clip, random: np.random.Generator) -> Clip:
        """The clip with source audio that goes on for a while, at most to the end of its talk."""
        excerpt = clip.excerpt
        latest = max(excerpt.end, excerpt.talk.duration)
        end = min(excerpt.end + random.uniform(0, self.ahead), latest)
        return replace(clip, excerpt=replace(excerpt, end=end))

    def losses(self, backbone: Backbone, batch: UnitBatch) -> dict[str, Tensor]:
        """``loss``, its terms ``units`` and ``guide``, and ``unit_accuracy``.

        The accuracy is that of the units and their end.
        """
        assert isinstance(backbone, SeamlessM4TSpeech), "prepare has checked it"
        states = text_states(backbone, batch)
        mask = torch.arange(states.shape[1], device=states.device) < batch.text_lengths[:, None]
        output = backbone.speaker.t2u(
            inputs_embeds=states,
            attention_mask=mask.long(),
            decoder_input_ids=batch.inputs,
            output_attentions=self.guide > 0,
            use_cache=False,
        )

        labelled = batch.labels != IGNORED
        logits, labels = output.logits[labelled].float(), batch.labels[labelled]
        units = functional.cross_entropy(logits, labels, label_smoothing=self.label_smoothing)
        losses = {
            "loss": units,
            "units": units,
            "unit_accuracy": (logits.argmax(-1) == labels).float().mean(),
        }
        if self.guide:
            guide = guide_loss(output.cross_attentions[-1].mean(dim=1), batch.word_mask)
            losses |= {"loss": units + self.guide * guide, "guide": guide}
        return losses


@torch.no_grad()
def text_states(backbone: SeamlessM4TSpeech, batch: UnitBatch) -> Tensor:
    """(batch, T, width) states of the frozen text decoder, over audio or over an encoded text."""
    memories = []
    if len(batch.features):
        memories.append(backbone.memories(batch.features, batch.lengths))
    if len(batch.encoder_ids):
        memories.append(encode_text(backbone, batch.encoder_ids, batch.padding))
    texts = batch.text.split([len(memory) for memory, _ in memories])
    return torch.cat(
        [
            decoder_states(backbone, text, *memory)
            for text, memory in zip(texts, memories, strict=True)
        ]
    )


@dataclass(frozen=True, slots=True)
class UnitCollator:
    """Clips to a batch; runs in a data worker.

    Attributes:
        ids: Of texts.
        audio: The backbone's collator of source audio.
        vocabularies: Where words begin, by unit of the language.
        codebook: Units of target speech.
        languages: Codes of languages.
        end: T2U's id of the end.
        offset: T2U's id of unit 0.
        unit_samples: Samples of a unit frame.
        state: See ``TextToUnit``.
    """

    ids: TextIds
    audio: Collator
    vocabularies: Mapping[UnitKind, Vocabulary]
    codebook: Codebook
    languages: SpokenLanguages
    end: int
    offset: int
    unit_samples: Samples
    state: int

    @classmethod
    def of(cls, backbone: SeamlessM4TSpeech, *, state: int) -> "UnitCollator":
        """The collator of a backbone; raises ZooError for one without units."""
        if backbone.codebook is None:
            raise ZooError(
                f"{backbone.title} has no codebook, so clips have no units; train its vocoder "
                "first."
            )
        config = backbone.speaker.t2u.config
        return cls(
            ids=TextIds.of(backbone),
            audio=backbone.collator(),
            vocabularies={
                unit: Vocabulary(backbone.tokenizer, unit) for unit in get_args(UnitKind)
            },
            codebook=backbone.codebook,
            languages=backbone.speaker.languages,
            end=config.t2u_eos_token_id,
            offset=config.vocoder_offset,
            unit_samples=backbone.unit_samples,
            state=state,
        )

    def __call__(
        self, clips: Sequence[Clip], *, with_audio: int, opened: Sequence[bool]
    ) -> UnitBatch:
        """Collate clips.

        Args:
            clips: The clips.
            with_audio: How many of them, from the first on, have their source audio.
            opened: Per clip, whether its text has no end.
        """
        ids = self.ids
        texts = [
            ids.decoder(clip.excerpt, closed=not open)
            for clip, open in zip(clips, opened, strict=True)
        ]
        runs = [collapsed(self.codebook.encode(clip.samples)) for clip in clips]
        rows = [self._row(clip, units) for clip, (units, _) in zip(clips, runs, strict=True)]
        features = [
            training_features(self.audio.spectrogram, clip.excerpt.samples(), self.audio.stride)
            for clip in clips[:with_audio]
        ]

        inputs = padded([row[:-1] for row in rows], self.end)
        word_mask = torch.zeros(*inputs.shape, max(map(len, texts)), dtype=torch.bool)
        for place, (clip, (_, frames)) in enumerate(zip(clips, runs, strict=True)):
            mask = self._word_mask(clip, frames)  # from input 1 on: the language predicts unit 0
            word_mask[place, 1 : 1 + mask.shape[0], : mask.shape[1]] = mask
        return UnitBatch(
            padding=ids.padding,
            features=padded(features, 0),
            lengths=torch.tensor([len(one) for one in features]),
            encoder_ids=padded(
                [ids.encoder(clip.excerpt) for clip in clips[with_audio:]], ids.padding
            ),
            text=padded(texts, ids.padding),
            text_lengths=torch.tensor([len(text) for text in texts]),
            inputs=inputs,
            labels=padded([unlabelled_language(row) for row in rows], IGNORED),
            word_mask=word_mask,
        )

    def noisy(self, inputs: Tensor, share: float, random: np.random.Generator) -> Tensor:
        """T2U's input (batch, U) with a share of random units; end and language stay."""
        replaced = torch.from_numpy(random.random(inputs.shape) < share)
        replaced[:, :2] = False
        units = torch.from_numpy(random.integers(len(self.codebook.centroids), size=inputs.shape))
        return torch.where(replaced, units + self.offset, inputs)

    def _row(self, clip: Clip, units: Tensor) -> Tensor:
        """(n,) end, language, units, end."""
        language = self.languages.units[self.languages.code(clip.excerpt.language)]
        return torch.tensor([self.end, language, *(units + self.offset).tolist(), self.end])

    def _word_mask(self, clip: Clip, frames: Tensor) -> Tensor:
        """(units, positions) bool: the decoder's positions of each unit's word.

        Args:
            clip: The clip.
            frames: (units,) unit frames of each unit.
        """
        language = clip.excerpt.language
        ids = torch.tensor(self.ids.text(clip.excerpt))
        words = self.vocabularies[language.unit].word_starts(ids).cumsum(dim=0) - 1
        opening = len(self.ids.opening[language.code])
        mask = unit_words(clip.words, frames, self.unit_samples)[:, None] == words
        return functional.pad(mask, (opening + self.state, 0))


def unit_words(words: Sequence[Word], frames: Tensor, unit_samples: Samples) -> Tensor:
    """The word of each unit: the last word that begins before the middle of the unit, or the first.

    Args:
        words: Words with seconds from the first sample.
        frames: (n,) unit frames of each unit.
        unit_samples: Samples of a unit frame.

    Returns:
        (n,) indices into ``words``.
    """
    middle = (frames.cumsum(dim=0) - frames / 2) * unit_samples / SAMPLE_RATE
    begins = torch.tensor([word.start for word in words], dtype=middle.dtype)
    return (torch.searchsorted(begins, middle, right=True) - 1).clamp_min(0)
