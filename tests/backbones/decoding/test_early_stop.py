"""Answers that end at the first late token, against answers that are decoded to their end."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.fixtures.streams import new_session, new_system, white_noise
from zoo.backbones.base import Backbone
from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.decoding.branches import Branches
from zoo.backbones.decoding.search import SearchConfig
from zoo.backbones.seamless_m4t.seamless_m4t import SeamlessM4T
from zoo.backbones.whisper import Whisper
from zoo.base.types import Capability, Hypothesis, Request, SpeechChunk
from zoo.history.base import History
from zoo.history.punctuation import Punctuation
from zoo.history.recent_words import RecentWords
from zoo.policies.alignatt import AlignAtt
from zoo.policies.attention import AttentionGuided
from zoo.policies.edatt import EDAtt

Folders = Callable[..., Path]
ALIGNED = frozenset({Capability.ALIGNMENT})
PREFIXES = [(), (11, 39, 77, 12), (100, 40), (152,)]


def seamless(folders: Folders, search: SearchConfig, alignment: AlignmentConfig) -> Backbone:
    backbone = SeamlessM4T(
        name=str(folders("seamless_m4t")),
        search=search,
        alignment=alignment,
        max_tokens=20,
        dtype="float64",
    )
    backbone.load()
    return backbone


def answers(backbone: Backbone, request: Request) -> list[Hypothesis]:
    """Of four streams of different lengths, as a batch."""
    target = "en" if isinstance(backbone, Whisper) else "de"
    waves = [white_noise(30_000 + 9_000 * seed, seed, scale=0.1) for seed in range(len(PREFIXES))]
    sessions = [
        new_session(backbone, waves[seed], target=target, source="de", prefix=prefix)
        for seed, prefix in enumerate(PREFIXES)
    ]
    return backbone.decode(sessions, [request] * len(sessions), ALIGNED)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Number of rows of each decoder step after the prompts."""
    rows: list[int] = []
    step = Branches.step

    def counted(self: Branches, tokens: torch.Tensor, *args: Any) -> None:
        rows.append(len(tokens))
        step(self, tokens, *args)

    monkeypatch.setattr(Branches, "step", counted)
    return rows


def stops_at_the_first_late_token(
    backbone: Backbone, policies: Sequence[AttentionGuided]
) -> list[bool]:
    """Check all answers, and return for each whether it ended early."""
    early = []
    whole = answers(backbone, Request())
    for policy in policies:
        stopped = answers(backbone, Request(stop_at=policy.attends_to_newest))
        for complete, answer in zip(whole, stopped, strict=True):
            unstable = policy.unstable(complete)
            late = int(unstable.nonzero()[0]) if bool(unstable.any()) else None
            tokens = answer.num_new_tokens
            assert answer.token_ids.tolist() == complete.token_ids[:tokens].tolist()
            assert answer.alignment is not None
            assert complete.alignment is not None
            torch.testing.assert_close(
                answer.alignment, complete.alignment[: len(answer.alignment)]
            )
            if tokens < complete.num_new_tokens:
                assert tokens == (late or 0) + 1
                assert not answer.finished
            early.append(tokens < complete.num_new_tokens)
    return early


ALIGNMENTS = {
    "predicting": AlignmentConfig(layer=1),
    "own": AlignmentConfig(layer=1, query="own", ignore_last=2),
    "mixed": AlignmentConfig(layer=0, query="mixed", median_filter=3),
    "sinks": AlignmentConfig(layer="all", ignore_first=2),
    "past": AlignmentConfig(layer=1, normalisation="z_score_past", average="last"),
    "past_own": AlignmentConfig(layer=1, normalisation="z_score_past", query="own"),
}
POLICIES = [
    *[AlignAtt(frames=frames) for frames in (1, 2, 4, 30)],
    *[EDAtt(alpha=alpha) for alpha in (0.1, 0.3)],
]


@pytest.mark.parametrize("kind", ALIGNMENTS)
def test_greedy_search_ends_at_the_first_late_token(folders: Folders, kind: str) -> None:
    backbone = seamless(folders, SearchConfig(no_repeat_ngram=3), ALIGNMENTS[kind])
    assert any(stops_at_the_first_late_token(backbone, POLICIES))


@pytest.mark.parametrize("beams", [2, 4])
@pytest.mark.parametrize("kind", ["predicting", "own", "mixed"])
def test_beam_search_ends_when_all_beams_share_the_first_late_token(
    folders: Folders, kind: str, beams: int
) -> None:
    backbone = seamless(folders, SearchConfig(beams=beams, no_repeat_ngram=3), ALIGNMENTS[kind])
    assert any(stops_at_the_first_late_token(backbone, POLICIES))


def test_whisper_ends_there_as_well(folders: Folders) -> None:
    """With its padding to 30 s, which the alignment does not have, and its median filter."""
    backbone = Whisper(name=str(folders("whisper")), max_tokens=16, dtype="float64")
    backbone.load()
    assert any(stops_at_the_first_late_token(backbone, POLICIES))


def test_an_alignment_that_reads_the_tail_is_decoded_to_its_end(
    folders: Folders, steps: list[int]
) -> None:
    backbone = seamless(
        folders, SearchConfig(no_repeat_ngram=3), AlignmentConfig(layer=1, normalisation="z_score")
    )
    assert not any(stops_at_the_first_late_token(backbone, POLICIES))


@pytest.mark.parametrize(
    ("history", "stops"),
    [
        (RecentWords(words=3, max_seconds=4.0), True),
        (RecentWords(words=3, max_seconds=4.0, rows="hypothesis"), False),
        (Punctuation(keep="sentence", max_seconds=4.0), True),
        (Punctuation(keep="after", rows="hypothesis", max_seconds=4.0), False),
    ],
)
@pytest.mark.parametrize("beams", [1, 3])
def test_a_stream_writes_the_same_in_fewer_steps(
    folders: Folders,
    steps: list[int],
    monkeypatch: pytest.MonkeyPatch,
    history: History,
    stops: bool,
    beams: int,
) -> None:
    search = SearchConfig(beams=beams, no_repeat_ngram=3)
    audio = white_noise(16_000 * 8, seed=4, scale=0.1)

    def stream() -> list[str]:
        system = new_system(
            seamless(folders, search, AlignmentConfig(layer=1)),
            AlignAtt(frames=12),
            history,
            chunk_seconds=1.0,
        )
        system.configure_model()
        session = system.open("talk")
        steps.clear()
        texts = []
        for chunk in range(8):
            samples = audio[16_000 * chunk : 16_000 * (chunk + 1)]
            [action] = system.step([session], [SpeechChunk(samples, final=chunk == 7)])
            texts.append(action.text)
        return texts

    texts, early = stream(), sum(steps)
    monkeypatch.setattr(history, "reads_unwritten", True)
    assert stream() == texts
    assert any(texts)
    assert (early < sum(steps)) is stops


def test_only_streams_with_a_rule_end_early(folders: Folders) -> None:
    """One stream of a batch flushes and is decoded to its end."""
    backbone = seamless(folders, SearchConfig(no_repeat_ngram=3), ALIGNMENTS["predicting"])
    policy = AlignAtt(frames=30)
    wave = white_noise(40_000, scale=0.1)
    sessions = [new_session(backbone, wave) for _ in range(2)]
    request = Request(stop_at=policy.attends_to_newest)
    stopped, whole = backbone.decode(sessions, [request, replace(request, stop_at=None)], ALIGNED)
    assert stopped.num_new_tokens == 1
    assert whole.num_new_tokens > 1
    assert whole.finished
