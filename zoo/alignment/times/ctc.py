"""Word times by forced alignment with a CTC recogniser (Kürzinger et al., 2020).

Any recogniser of Transformers with a CTC head on characters: wav2vec 2.0, HuBERT, WavLM,
Wav2Vec2-BERT and others.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from transformers import AutoFeatureExtractor, AutoModelForCTC, AutoTokenizer

from zoo.alignment.times.base import TimedWords
from zoo.alignment.times.letters import Labels, Letters
from zoo.alignment.times.viterbi import CTCPath, best_ctc_paths
from zoo.backbones.base import dtype_named
from zoo.backbones.ctc.best_path import frame_logits, frame_samples
from zoo.backbones.pretrained import hub
from zoo.backbones.pretrained.loading import (
    check_extractor,
    find_config,
    load_network,
    load_part,
)
from zoo.base.audio import files as audio
from zoo.base.errors import ZooError, check_numbers
from zoo.base.languages import language as language_of
from zoo.base.talks import Segment, Talk, Word
from zoo.base.types import SAMPLE_RATE, Seconds
from zoo.data.word_times import transcript_words

NOUN = "CTC recogniser"


class CTCTimes:
    """An aligner that finds the most probable CTC path of each transcript.

    A word lasts from the first frame of its first letter to the last frame of its last letter. A
    letter is emitted when it is recognised, in the middle of its sound rather than at its start, so
    the start is moved forward by ``lead``, at most to the end of the previous word.

    A word with a letter or digit that the vocabulary lacks, such as "1984", is a wildcard between
    its neighbours: it scores every frame like the best token there. It lasts from the first to the
    last frame in it that has no blank. Punctuation and case do not matter.

    Args:
        name: hub id or folder of a CTC recogniser with a character vocabulary.
        language: code of the language of the transcripts.
        lead: seconds by which a word starts before its first letter is emitted.
        tail: seconds by which a word ends after its last letter is emitted.
        max_seconds: maximum duration of a segment; longer ones are not aligned.
        batch_size: number of segments that are aligned at once.
        dtype: dtype of the network, by its name in torch.

    Raises:
        ZooError: an argument is outside its range, or ``language`` or ``dtype`` is unknown.
    """

    def __init__(
        self,
        *,
        name: str | None,
        language: str,
        lead: Seconds = 0.04,
        tail: Seconds = 0.0,
        max_seconds: Seconds = 60.0,
        batch_size: int = 8,
        dtype: str = "float32",
    ) -> None:
        check_numbers("CTC alignment", least=1, batch_size=batch_size)
        check_numbers("CTC alignment", least=0, lead=lead, tail=tail)
        check_numbers("CTC alignment", above=0, max_seconds=max_seconds)
        self.name = name
        self.language = language_of(language)
        self.lead = lead
        self.tail = tail
        self.max_seconds = max_seconds
        self.batch_size = batch_size
        self.dtype = dtype_named(dtype)
        self._network: Any = None

    def check(self) -> None:
        """See ``WordTimer``; reads only the config.json of the model."""
        self._checked_name()

    def _checked_name(self) -> str:
        """Return the name of the model. Raises ZooError if it is missing or no CTC model."""
        name = hub.required(NOUN, self.name, user="CTC alignment")
        config = find_config(name)
        architecture = str((config.get("architectures") or ["unknown"])[0])
        if not architecture.endswith("ForCTC"):
            raise ZooError(
                f"{name} is not a {NOUN} but {architecture} according to its config.json; choose a "
                "CTC model (Wav2Vec2ForCTC, HubertForCTC, ...)."
            )
        return name

    def load(self, device: torch.device | None = None) -> None:
        """See ``WordTimer``."""
        if self._network is None:
            name = self._checked_name()
            self._extractor = load_part(
                "feature extractor", AutoFeatureExtractor.from_pretrained, name
            )
            check_extractor(self._extractor, name)
            self._tokenizer = load_part("tokenizer", AutoTokenizer.from_pretrained, name)
            network = load_network(AutoModelForCTC, name, self.dtype).requires_grad_(False)
            self._letters = self._read_letters(name, network.config.vocab_size)
            self._network = network
            self._hop = frame_samples(network, self._extractor)
        self._network.to(device or "cpu")

    def _read_letters(self, name: str, tokens: int) -> Letters:
        """Read the vocabulary. Raises ZooError if it has no single characters.

        Args:
            name: hub id or folder.
            tokens: number of tokens that the network scores; the wildcard is the next one.
        """
        special = set(self._tokenizer.all_special_tokens)
        delimiter = getattr(self._tokenizer, "word_delimiter_token", None)
        vocabulary = {
            token: index
            for token, index in self._tokenizer.get_vocab().items()
            if len(token) == 1 and token not in special and token != delimiter
        }
        if not any(map(str.isalpha, vocabulary)) or self._tokenizer.pad_token_id is None:
            raise ZooError(
                f"{name} has no vocabulary of single letters with a blank, which CTC alignment "
                "needs; choose a recogniser of characters, such as a Wav2Vec2ForCTC."
            )
        has_delimiter = delimiter is not None and self.language.separator != ""
        delimiter_id = self._tokenizer.word_delimiter_token_id if has_delimiter else None
        return Letters(vocabulary, delimiter_id, tokens)

    def times(self, talk: Talk, segments: Sequence[Segment]) -> list[TimedWords]:
        """See ``WordTimer``; call ``load`` first."""
        assert self._network is not None, "call load first"
        results = [self._refused(segment) for segment in segments]
        # Segments of similar length share a batch, which keeps the padding short.
        indices = [index for index, result in enumerate(results) if result is None]
        indices.sort(key=lambda index: -segments[index].duration)
        for start in range(0, len(indices), self.batch_size):
            batch = indices[start : start + self.batch_size]
            aligned = self._align(talk, [segments[index] for index in batch])
            for index, result in zip(batch, aligned, strict=True):
                results[index] = result
        return [result for result in results if result is not None]

    def _refused(self, segment: Segment) -> TimedWords | None:
        """Return the reason not to align a segment; None if there is no reason."""
        words = self.language.units(segment.source)
        if not any(any(map(str.isalnum, word)) for word in words):
            return TimedWords(problem="the transcript has no word")
        if not any(map(self._letters.spelled, words)):
            return TimedWords(problem="the recogniser's vocabulary spells no word")
        if segment.duration > self.max_seconds:
            seconds = f"{segment.duration:.1f} s"
            return TimedWords(problem=f"it lasts {seconds}, more than {self.max_seconds:g} s")
        return None

    @torch.inference_mode()
    def _align(self, talk: Talk, segments: Sequence[Segment]) -> list[TimedWords]:
        """Align segments in one batch."""
        waves = [
            audio.load(talk.file, start=talk.offset + segment.offset, duration=segment.duration)
            for segment in segments
        ]
        units = [self.language.units(segment.source) for segment in segments]
        labels = [self._letters.labels(row) for row in units]
        log_probs = [
            # On the CPU, because many small steps follow.
            _with_wildcard(logits.float().log_softmax(-1)).cpu()
            for logits in frame_logits(self._network, self._extractor, waves)
        ]
        blank = int(self._tokenizer.pad_token_id)
        paths = best_ctc_paths(log_probs, [row.tokens for row in labels], blank=blank)

        results: list[TimedWords] = []
        for row, (segment, path) in enumerate(zip(segments, paths, strict=True)):
            if path is None:
                frames, tokens = len(log_probs[row]), len(labels[row].tokens)
                problem = f"its {frames} frames are too few for the {tokens} labels of its text"
                results.append(TimedWords(problem=problem))
                continue
            is_blank = log_probs[row][:, :-1].argmax(-1) == blank
            spans = self._spans(labels[row], path, is_blank, segment)
            aligned = tuple(
                Word(units[row][word], start, end) for word, (start, end) in spans.items()
            )
            words = transcript_words(replace(segment, words=aligned), self.language)
            score = path.score / len(path.labels)
            results.append(TimedWords(words=tuple(words), score=score))
        return results

    def _spans(
        self, labels: Labels, path: CTCPath, is_blank: Tensor, segment: Segment
    ) -> dict[int, tuple[Seconds, Seconds]]:
        """Return start and end of each word that has labels, in seconds from the talk's start.

        Args:
            labels: labels of the transcript.
            path: path through the labels.
            is_blank: (frames,) whether the blank is the most probable token of a frame.
            segment: segment, which all words lie in.
        """
        frames: dict[int, list[int]] = {}
        for frame, index in enumerate(path.labels.tolist()):
            owner = labels.owners[index] if index >= 0 else None
            if owner is not None:
                frames.setdefault(owner, []).append(frame)

        hop = self._hop / SAMPLE_RATE
        spans: dict[int, tuple[Seconds, Seconds]] = {}
        previous = segment.offset
        for index, owner in enumerate(labels.owners):
            if owner is None or owner in spans:
                continue
            inside = frames[owner]
            if labels.tokens[index] == self._letters.wildcard:
                inside = [frame for frame in inside if not is_blank[frame]] or inside
            start = segment.offset + inside[0] * hop - self.lead
            end = segment.offset + (inside[-1] + 1) * hop + self.tail
            start = min(max(start, previous), segment.end)
            previous = min(max(end, start), segment.end)
            spans[owner] = (start, previous)
        return spans


def _with_wildcard(log_probs: Tensor) -> Tensor:
    """Append the score of a wildcard, which is that of the best token: (frames, tokens + 1)."""
    return torch.cat([log_probs, log_probs.amax(dim=-1, keepdim=True)], dim=-1)
