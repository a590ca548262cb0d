"""From states of a frozen text decoder to speech units: what a text-to-unit model (T2U) is trained for.

Guided attention is supervision of *training* alone: the synthesiser's word times tell which word a unit says, and the
cross-attention of the last layer is pulled there, so that SimulU can read off it which units to cut. The policy that
streams is training-free. Knows no policy, and no waveform but by the units of a codebook.
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
from zoo.backbones.common.text.vocabulary import Vocabulary
from zoo.backbones.seamless_m4t.data import Collator
from zoo.backbones.seamless_m4t.encoder import training_features as features_of
from zoo.backbones.seamless_m4t.languages import SpokenLanguages
from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.data.clips import Clip
from zoo.data.talks import Talk, Word
from zoo.data.units import Codebook, collapsed
from zoo.errors import ZooError, unknown_choice
from zoo.objectives.base import Objective
from zoo.objectives.guide import unlike
from zoo.objectives.text_copy import IGNORED, Texts, padded, reading, remembered, written_states
from zoo.types import SAMPLE_RATE, Samples, Seconds, UnitKind


@dataclass(slots=True)
class UnitBatch:
    """Clips whose text decoder hears speech come first, those with a read text follow.

    padding: the id that is no text. features: (B1, F, width) of source audio, (B1,) lengths. read: (B2, S) ids for the
    text encoder. text: (B, T) ids for the text decoder; texts: (B,) lengths. inputs, labels: (B, U) ids for T2U and
    what each predicts. spoken: (B, U, T) bool, the positions of the word that the predicted unit says; none for what is
    no unit.
    """

    padding: int
    features: Tensor
    lengths: Tensor
    read: Tensor
    text: Tensor
    texts: Tensor
    inputs: Tensor
    labels: Tensor
    spoken: Tensor

    def to(self, device: torch.device) -> "UnitBatch":
        """The same batch on ``device``."""
        return UnitBatch(
            self.padding, *(getattr(self, name).to(device) for name in self.__slots__[1:])
        )


class TextToUnit(Objective):
    """Cross-entropy on the collapsed units of clips, and guided attention.

    speech: share of the clips whose text decoder hears their source audio; the others have the memory of the text
    encoder, as TTS has. ahead: most seconds that are heard beyond the words, as the speech that is not translated yet.
    open: share whose text has no end, as what is written in the middle of a talk has none.
    label_smoothing: of the cross-entropy. noise: share of the units before each that are random ones instead, so that
    the text is read and the units so far are not trusted. guide: weight of -log of the last layer's attention (mean of
    its heads) to the tokens of the word that is spoken; 0: no guide. state: where a token is looked for: 0: at its own
    state; -1: at the one that predicts it (of sentences fewer words were wrong so; of what streaming says more).
    Clips go down to one word: cascades that speak nothing but new words have learned to, and are compared fairly.
    """

    takes = Clip

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
    ) -> None:
        super().__init__()
        for name, share in (
            ("speech", speech),
            ("open", open),
            ("label_smoothing", label_smoothing),
            ("noise", noise),
        ):
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

    def prepare(self, talks: Sequence[Talk], backbone: Backbone) -> None:
        """Take from the backbone how it hears, reads and counts units. Raises ZooError where it lacks one of them."""
        speaking = reading(backbone, objective="text_to_unit")
        self._collate = UnitCollator.of(speaking, state=self.state)
        if self.guide:
            speaking.speaker.t2u.set_attn_implementation("eager")  # the other ones tell no weights

    def batch(
        self, stretches: Sequence[Clip], multiplier: int, frames: Sequence[Tensor] | None = None
    ) -> UnitBatch:
        """Which clips are heard, how far, which are open and what is noise follows from the clips alone."""
        assert self._collate is not None, "prepare comes first"
        seed = zlib.crc32(" ".join(clip.excerpt.text for clip in stretches).encode())
        random = np.random.default_rng(seed)
        clips = [
            self._further(stretches[place], random) for place in random.permutation(len(stretches))
        ]
        opened = random.random(len(clips)) < self.open
        batch = self._collate(
            clips, heard=int(random.binomial(len(clips), self.speech)), opened=opened.tolist()
        )
        return replace(batch, inputs=self._collate.noisy(batch.inputs, self.noise, random))

    def _further(self, clip: Clip, random: np.random.Generator) -> Clip:
        """The clip whose source goes on for a while, as far as its talk does."""
        excerpt = clip.excerpt
        end = min(
            excerpt.end + random.uniform(0, self.ahead), max(excerpt.end, excerpt.talk.duration)
        )
        return replace(clip, excerpt=replace(excerpt, end=end))

    def losses(self, backbone: Backbone, batch: UnitBatch) -> dict[str, Tensor]:
        """``loss``, of ``units`` and, where there is one, ``guide``; ``unit_accuracy`` over units and their end."""
        assert isinstance(backbone, SeamlessM4TSpeech), "prepare has checked it"
        states = text_states(backbone, batch)
        inside = torch.arange(states.shape[1], device=states.device) < batch.texts[:, None]
        said = backbone.speaker.t2u(
            inputs_embeds=states,
            attention_mask=inside.long(),
            decoder_input_ids=batch.inputs,
            output_attentions=self.guide > 0,
            use_cache=False,
        )
        learned = batch.labels != IGNORED
        logits, labels = said.logits[learned].float(), batch.labels[learned]
        units = functional.cross_entropy(logits, labels, label_smoothing=self.label_smoothing)
        losses = {
            "loss": units,
            "units": units,
            "unit_accuracy": (logits.argmax(-1) == labels).float().mean(),
        }
        if self.guide:
            guide = unlike(said.cross_attentions[-1].mean(dim=1), batch.spoken)
            losses |= {"loss": units + self.guide * guide, "guide": guide}
        return losses


@torch.no_grad()
def text_states(backbone: SeamlessM4TSpeech, batch: UnitBatch) -> Tensor:
    """(B, T, width): what the frozen text decoder makes of the texts, by speech or by a read text."""
    memories = []
    if len(batch.features):
        memories.append(backbone.memories(batch.features, batch.lengths))
    if len(batch.read):
        memories.append(remembered(backbone, batch.read, batch.padding))
    texts = batch.text.split([len(memory) for memory, _ in memories])
    return torch.cat(
        [
            written_states(backbone, text, *memory)
            for text, memory in zip(texts, memories, strict=True)
        ]
    )


@dataclass(frozen=True, slots=True)
class UnitCollator:
    """Clips to a batch; runs in a data worker. offset: T2U's id of unit 0. unit_samples: of a unit frame.

    state: see ``TextToUnit``.
    """

    texts: Texts
    hearing: Collator
    vocabularies: Mapping[UnitKind, Vocabulary]
    codebook: Codebook
    languages: SpokenLanguages
    end: int
    offset: int
    unit_samples: Samples
    state: int

    @classmethod
    def of(cls, backbone: SeamlessM4TSpeech, *, state: int) -> "UnitCollator":
        """What a backbone is fed. Raises ZooError for one without units."""
        if backbone.codebook is None:
            raise ZooError(
                f"{backbone.title} has no codebook, so no clip has units; train its vocoder first."
            )
        config = backbone.speaker.t2u.config
        return cls(
            texts=Texts.of(backbone),
            hearing=backbone.collator(),
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

    def __call__(self, clips: Sequence[Clip], *, heard: int, opened: Sequence[bool]) -> UnitBatch:
        """The first ``heard`` clips are heard, the others read; those ``opened`` have no end."""
        texts, hearing = self.texts, self.hearing
        written = [
            texts.written(clip.excerpt, closed=not open)
            for clip, open in zip(clips, opened, strict=True)
        ]
        runs = [collapsed(self.codebook.encode(clip.samples)) for clip in clips]
        rows = [self._row(clip, units) for clip, (units, _) in zip(clips, runs, strict=True)]
        features = [
            features_of(hearing.spectrogram, clip.excerpt.samples(), hearing.stride)
            for clip in clips[:heard]
        ]
        inputs = padded([row[:-1] for row in rows], self.end)
        spoken = torch.zeros(*inputs.shape, max(map(len, written)), dtype=torch.bool)
        for place, (clip, (_, frames)) in enumerate(zip(clips, runs, strict=True)):
            said = self._spoken(clip, frames)
            spoken[place, 1 : 1 + said.shape[0], : said.shape[1]] = (
                said  # the language predicts the first unit
            )
        return UnitBatch(
            padding=texts.padding,
            features=padded(features, 0),
            lengths=torch.tensor([len(one) for one in features]),
            read=padded([texts.read(clip.excerpt) for clip in clips[heard:]], texts.padding),
            text=padded(written, texts.padding),
            texts=torch.tensor([len(text) for text in written]),
            inputs=inputs,
            labels=padded(
                [torch.cat([row.new_tensor([IGNORED]), row[2:]]) for row in rows], IGNORED
            ),
            spoken=spoken,
        )

    def noisy(self, inputs: Tensor, share: float, random: np.random.Generator) -> Tensor:
        """T2U's input (B, U), a share of it random units; the end and the language that it begins with stay."""
        wrong = torch.from_numpy(random.random(inputs.shape) < share)
        wrong[:, :2] = False
        units = torch.from_numpy(random.integers(len(self.codebook.centroids), size=inputs.shape))
        return torch.where(wrong, units + self.offset, inputs)

    def _row(self, clip: Clip, units: Tensor) -> Tensor:
        """(n,) end, language, units, end."""
        language = self.languages.units[self.languages.code(clip.excerpt.language)]
        return functional.pad(
            torch.tensor([self.end, language, *(units + self.offset).tolist()]),
            (0, 1),
            value=self.end,
        )

    def _spoken(self, clip: Clip, frames: Tensor) -> Tensor:
        """(units, positions) bool: the decoder's positions whose word each unit says; units last (n,) frames."""
        language = clip.excerpt.language
        ids = torch.tensor(self.texts.ids(clip.excerpt))
        words = self.vocabularies[language.unit].word_starts(ids).cumsum(dim=0) - 1
        opening = len(self.texts.opening[language.code])
        said = owners(clip.words, frames, self.unit_samples)[:, None] == words
        return functional.pad(said, (opening + self.state, 0))


def owners(words: Sequence[Word], frames: Tensor, unit_samples: Samples) -> Tensor:
    """(n,) index of the word that each unit says, by the middle of it: the last one that has begun, or the first.

    frames: (n,) how many unit frames each unit lasts.
    """
    middle = (frames.cumsum(dim=0) - frames / 2) * unit_samples / SAMPLE_RATE
    begins = torch.tensor([word.start for word in words], dtype=middle.dtype)
    return (torch.searchsorted(begins, middle, right=True) - 1).clamp_min(0)
