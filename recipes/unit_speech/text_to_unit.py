"""Training objective of the text-to-unit model (T2U), which predicts speech units of a text.

T2U receives the states of the frozen text decoder. A guide, which is an additional loss term,
concentrates the cross-attention of T2U's last layer on the word that a unit belongs to. The word
times of the speech synthesiser define the word of each unit. SimulU uses this cross-attention to
cut units between words. The guide is used in training only; the streaming policy needs no training.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from recipes.unit_speech.attention_guide import guide_loss
from recipes.unit_speech.text_copy import (
    TextIds,
    decoder_states,
    encode_text,
    padded,
    unlabelled_language,
    with_text_encoder,
)
from recipes.unit_speech.unit_vocoder import fit_units
from zoo.backbones.base import Backbone
from zoo.backbones.decoding.teacher_forcing import IGNORED, token_accuracy
from zoo.backbones.objective import Objective
from zoo.backbones.seamless_m4t.data import SeamlessCollator
from zoo.backbones.seamless_m4t.encoder import training_features
from zoo.backbones.seamless_m4t.languages import SpokenLanguages
from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.backbones.seamless_m4t.units import Codebook, collapse_repetitions
from zoo.backbones.text.vocabulary import Vocabulary, vocabularies
from zoo.base.errors import ZooError, check_choice, check_numbers
from zoo.base.talks import Talk, Word
from zoo.base.types import SAMPLE_RATE, Samples, Seconds, UnitKind
from zoo.data.clips import Clip, ClipConfig
from zoo.data.sampling import Sampler


@dataclass
class UnitBatch:
    """A batch of texts and units.

    The first B1 rows have source audio, which the speech encoder encodes. The other B2 rows have a
    text, which the text encoder encodes.

    Attributes:
        padding: Id that pads shorter texts.
        features: (B1, F, 2 x bins) stacked filterbank features of source audio.
        lengths: (B1,) number of feature frames of each row, without padding.
        encoder_ids: (B2, S) input ids of the text encoder.
        text: (batch, T) input ids of the text decoder.
        text_lengths: (batch,) number of ids in each row of ``text``, without padding.
        inputs: (batch, U) input ids of T2U's decoder.
        labels: (batch, U) id that T2U predicts at each input, or ``IGNORED``.
        word_mask: (batch, U, T) bool, True for text positions of the word that the predicted unit
            belongs to; all False for inputs that do not predict a unit.
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
    """The objective that trains the text-to-unit model.

    The loss is the cross-entropy of the units of a clip, with consecutive equal units merged, plus
    a weighted guide of the cross-attention. Clips may have a single word, since cascades synthesise
    single new words, too.

    Args:
        speech: Share of the clips whose text decoder attends to the clip's encoded source audio.
            For the other clips, the text decoder attends to the encoded text, as in text to speech.
        ahead: Longest source audio after the last word, in seconds. In streaming, such audio is
            received but not translated yet.
        open: Share of the clips whose text has no end token, like a text in the middle of a talk.
        label_smoothing: Label smoothing of the cross-entropy.
        noise: Share of the input units that are replaced by random units, so that T2U relies more
            on the text than on previous units.
        guide: Weight of the guide; 0 switches the guide off.
        state: Text decoder state that represents a token: 0 for the state at the token, -1 for the
            state that predicts the token. With -1, T2U produces fewer wrong words on sentences, but
            more wrong words in streaming.
        sampling: Configuration of the clips to train on.

    Raises:
        ZooError: If a share is not between 0 and 1, ``ahead`` or ``guide`` is negative, or
            ``state`` is neither 0 nor -1.
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
        check_numbers("text_to_unit", least=0, most=1, speech=speech, open=open, noise=noise)
        check_numbers("text_to_unit", least=0, most=1, label_smoothing=label_smoothing)
        check_numbers("text_to_unit", least=0, ahead=ahead, guide=guide)
        check_choice("text_to_unit.state", state, (0, -1))
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
        """Take tokenizer and codebook from the backbone; fit the codebook if there is none.

        Args:
            talks: Ignored; the talks of the training set.
            backbone: Loaded SeamlessM4T with a text encoder.
            samplers: Samplers of the training clips, to which the codebook is fitted.

        Raises:
            ZooError: If the backbone is of another family, or has no text encoder or no codebook.
        """
        seamless = with_text_encoder(backbone, objective="text_to_unit")
        fit_units(seamless, samplers)
        self._collate = UnitCollator.of(seamless, state=self.state)
        if self.guide:
            # Other attention implementations return no attention weights
            seamless.speaker.t2u.set_attn_implementation("eager")

    def batch(self, examples: Sequence[Clip]) -> UnitBatch:
        """Collate clips with random choices, which depend on the texts of the clips only."""
        assert self._collate is not None, "prepare comes first"
        seed = zlib.crc32(" ".join(clip.excerpt.text for clip in examples).encode())
        generator = np.random.default_rng(seed)

        order = generator.permutation(len(examples))
        clips = [self._extended(examples[index], generator) for index in order]
        opened = generator.random(len(clips)) < self.open
        with_audio = int(generator.binomial(len(clips), self.speech))
        batch = self._collate(clips, with_audio=with_audio, opened=opened.tolist())
        return replace(batch, inputs=self._collate.noisy(batch.inputs, self.noise, generator))

    def _extended(self, clip: Clip, generator: np.random.Generator) -> Clip:
        """Extend a clip's source audio by at most ``ahead`` seconds, within the clip's talk."""
        excerpt = clip.excerpt
        latest_end = max(excerpt.end, excerpt.talk.duration)
        end = min(excerpt.end + generator.uniform(0, self.ahead), latest_end)
        return replace(clip, excerpt=replace(excerpt, end=end))

    def losses(self, backbone: Backbone, batch: UnitBatch) -> dict[str, Tensor]:
        """Compute the losses of a batch.

        Args:
            backbone: SeamlessM4T that is trained.
            batch: Collated clips.

        Returns:
            ``loss``, the weighted sum; its terms ``units`` (nats per unit) and, if its weight is
            positive, ``guide``; and ``unit_accuracy``. The end of the units counts as a unit.
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

        is_labelled = batch.labels != IGNORED  # (batch, U)
        logits = output.logits[is_labelled].float()
        labels = batch.labels[is_labelled]
        units = functional.cross_entropy(logits, labels, label_smoothing=self.label_smoothing)
        losses = {
            "loss": units,
            "units": units,
            "unit_accuracy": token_accuracy(logits, labels),
        }
        if self.guide:
            guide = guide_loss(output.cross_attentions[-1].mean(dim=1), batch.word_mask)
            losses |= {"loss": units + self.guide * guide, "guide": guide}
        return losses


@torch.no_grad()
def text_states(backbone: SeamlessM4TSpeech, batch: UnitBatch) -> Tensor:
    """Run the frozen text decoder over the encoded audio or the encoded text of each row.

    Args:
        backbone: SeamlessM4T with a text encoder.
        batch: Collated clips.

    Returns:
        Hidden states of the text decoder, (batch, T, width).
    """
    memories = []
    if len(batch.features):
        memories.append(backbone.memories(batch.features, batch.lengths))
    if len(batch.encoder_ids):
        memories.append(encode_text(backbone, batch.encoder_ids, batch.padding))

    # Rows with audio, then rows with a text: (B1, T) and (B2, T)
    texts = batch.text.split([len(memory) for memory, _ in memories])
    states = [
        decoder_states(backbone, text, memory, mask)
        for text, (memory, mask) in zip(texts, memories, strict=True)
    ]
    return torch.cat(states)


@dataclass(frozen=True, slots=True)
class UnitCollator:
    """A function that converts clips into a batch, in a data worker.

    Attributes:
        ids: Converter from translations to ids of the text encoder and the text decoder.
        audio: Collator whose spectrogram and stride compute features of source audio.
        vocabularies: Word boundaries of token ids, by the language's unit of text.
        codebook: Codebook that maps target speech to units.
        languages: Spoken languages and their ids.
        end: T2U's id of the end token.
        offset: T2U's id of unit 0.
        unit_samples: Number of samples per unit frame.
        state: Text decoder state that represents a token: 0 for the state at the token, -1 for the
            state that predicts the token.
    """

    ids: TextIds
    audio: SeamlessCollator
    vocabularies: Mapping[UnitKind, Vocabulary]
    codebook: Codebook
    languages: SpokenLanguages
    end: int
    offset: int
    unit_samples: Samples
    state: int

    @classmethod
    def of(cls, backbone: SeamlessM4TSpeech, *, state: int) -> "UnitCollator":
        """Return the collator of a loaded backbone.

        Args:
            backbone: SeamlessM4T with a text encoder.
            state: Text decoder state that represents a token, 0 or -1.

        Raises:
            ZooError: If the backbone has no codebook of units.
        """
        if backbone.codebook is None:
            raise ZooError(
                f"{backbone.title} has no codebook, so clips have no units; train its vocoder "
                "first."
            )
        config = backbone.speaker.t2u.config
        return cls(
            ids=TextIds.of(backbone),
            audio=backbone.collator(),
            vocabularies=vocabularies(backbone.tokenizer),
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
            clips: Clips of the batch.
            with_audio: Number of clips, from the first clip on, whose source audio is encoded.
            opened: Whether the end token of the text is left out, for each clip.
        """
        ids = self.ids
        texts = [
            ids.decoder(clip.excerpt, closed=not is_open)
            for clip, is_open in zip(clips, opened, strict=True)
        ]
        # Merged units and their numbers of frames, for each clip
        runs = [collapse_repetitions(self.codebook.encode(clip.samples)) for clip in clips]
        rows = [self._row(clip, units) for clip, (units, _) in zip(clips, runs, strict=True)]
        features = [
            training_features(self.audio.spectrogram, clip.excerpt.samples(), self.audio.stride)
            for clip in clips[:with_audio]
        ]

        inputs = padded([row[:-1] for row in rows], self.end)
        word_mask = torch.zeros(*inputs.shape, max(map(len, texts)), dtype=torch.bool)
        for row, (clip, (_, frames)) in enumerate(zip(clips, runs, strict=True)):
            mask = self._word_mask(clip, frames)  # (units, positions)
            units, positions = mask.shape
            # Input 1, the language, predicts unit 0
            word_mask[row, 1 : 1 + units, :positions] = mask
        return UnitBatch(
            padding=ids.padding,
            features=padded(features, 0),
            lengths=torch.tensor([len(row) for row in features]),
            encoder_ids=padded(
                [ids.encoder(clip.excerpt) for clip in clips[with_audio:]], ids.padding
            ),
            text=padded(texts, ids.padding),
            text_lengths=torch.tensor([len(text) for text in texts]),
            inputs=inputs,
            labels=padded([unlabelled_language(row) for row in rows], IGNORED),
            word_mask=word_mask,
        )

    def noisy(self, inputs: Tensor, share: float, generator: np.random.Generator) -> Tensor:
        """Replace a share of the input units by random units.

        Args:
            inputs: (batch, U) input ids of T2U: end, language, units.
            share: Share of the units that are replaced.
            generator: Source of all random choices.

        Returns:
            (batch, U) input ids of T2U.
        """
        replaced = torch.from_numpy(generator.random(inputs.shape) < share)
        replaced[:, :2] = False  # end and language
        unit_count = len(self.codebook.centroids)
        units = torch.from_numpy(generator.integers(unit_count, size=inputs.shape))
        return torch.where(replaced, units + self.offset, inputs)

    def _row(self, clip: Clip, units: Tensor) -> Tensor:
        """Return T2U's ids of a clip, (n,): end, language, units, end."""
        language = self.languages.units[self.languages.code(clip.excerpt.language)]
        return torch.tensor([self.end, language, *(units + self.offset).tolist(), self.end])

    def _word_mask(self, clip: Clip, frames: Tensor) -> Tensor:
        """Find the text decoder positions of each unit's word.

        Args:
            clip: Clip with word times.
            frames: (units,) number of unit frames of each unit.

        Returns:
            (units, positions) bool, True for positions of the unit's word.
        """
        language = clip.excerpt.language
        ids = torch.tensor(self.ids.text(clip.excerpt))
        token_words = self.vocabularies[language.unit].word_starts(ids).cumsum(dim=0) - 1
        opening = len(self.ids.opening[language.code])
        words = unit_words(clip.words, frames, self.unit_samples)  # (units,)
        mask = words[:, None] == token_words  # (units, tokens)
        return functional.pad(mask, (opening + self.state, 0))


def unit_words(words: Sequence[Word], frames: Tensor, unit_samples: Samples) -> Tensor:
    """Find the word that each unit belongs to.

    A unit belongs to the last word that starts before the middle of the unit. A unit before all
    words belongs to the first word.

    Args:
        words: Words with start and end in seconds from the first sample.
        frames: (n,) number of unit frames of each unit.
        unit_samples: Number of samples per unit frame.

    Returns:
        (n,) indices into ``words``.
    """
    middles = (frames.cumsum(dim=0) - frames / 2) * unit_samples / SAMPLE_RATE  # seconds
    starts = torch.tensor([word.start for word in words], dtype=middles.dtype)
    return (torch.searchsorted(starts, middles, right=True) - 1).clamp_min(0)
