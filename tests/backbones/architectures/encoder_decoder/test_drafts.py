"""The unwritten end of an answer as the draft of the next answer: same words in fewer steps."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.fixtures.streams import new_session, new_system, white_noise
from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.decoding.branches import Branches
from zoo.backbones.decoding.search import SearchConfig
from zoo.backbones.seamless_m4t.seamless_m4t import SeamlessM4T
from zoo.backbones.whisper import Whisper
from zoo.base.types import Capability, Hypothesis, Request, SpeechChunk, Task
from zoo.history.keep_all import KeepAll
from zoo.history.recent_words import RecentWords
from zoo.policies.alignatt import AlignAtt
from zoo.policies.base import Policy
from zoo.policies.local_agreement import LocalAgreement

Folders = Callable[..., Path]
ALIGNED = frozenset({Capability.ALIGNMENT})
SEARCH = SearchConfig(no_repeat_ngram=3)


def seamless(folders: Folders, **options: Any) -> SeamlessM4T:
    settings: dict[str, Any] = {"search": SEARCH, "max_tokens": 20, "dtype": "float64"}
    alignment = AlignmentConfig(layer=1, query="own", normalisation="z_score")
    folder = str(folders("seamless_m4t"))
    backbone = SeamlessM4T(name=folder, alignment=alignment, **(settings | options))
    backbone.load()
    return backbone


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry per decoder step after the prompts."""
    found: list[int] = []
    step = Branches.step

    def counted(self: Branches, tokens: torch.Tensor, *args: Any) -> None:
        found.append(len(tokens))
        step(self, tokens, *args)

    monkeypatch.setattr(Branches, "step", counted)
    return found


def answered(
    backbone: SeamlessM4T | Whisper, drafts: Sequence[list[int]], request: Request
) -> list[Hypothesis]:
    """Of streams of different lengths and prefixes with these drafts, as a batch."""
    target = "en" if isinstance(backbone, Whisper) else "de"
    sessions = []
    for seed, draft in enumerate(drafts):
        wave = white_noise(30_000 + 9_000 * seed, seed, scale=0.1)
        prefix = [11, 39, 77][:seed]
        session = new_session(backbone, wave, source="de", target=target, prefix=prefix)
        session.backbone_state.draft = draft
        sessions.append(session)
    return backbone.decode(sessions, [request] * len(sessions), ALIGNED)


def assert_equal(found: Hypothesis, expected: Hypothesis) -> None:
    assert found.token_ids.tolist() == expected.token_ids.tolist()
    assert (found.finished, found.truncated) == (expected.finished, expected.truncated)
    torch.testing.assert_close(found.alignment, expected.alignment)


@pytest.mark.parametrize("kind", ["seamless", "whisper"])
def test_any_draft_gives_the_same_answer(folders: Folders, kind: str) -> None:
    """Right, wrong from some id on, too long and empty drafts in one batch."""
    backbone: SeamlessM4T | Whisper = seamless(folders)
    if kind == "whisper":
        backbone = Whisper(name=str(folders("whisper")), max_tokens=16, dtype="float64")
        backbone.load()
    expected = answered(backbone, [[]] * 4, Request())
    answers = [hypothesis.token_ids.tolist() for hypothesis in expected]
    for drafts in (
        answers,
        [[*ids[:2], 55, 56, *ids[2:]] for ids in answers],
        [ids + [60] * 40 for ids in answers],
        [answers[0], [], answers[0], [99]],
        [[], [], [], answers[3][:1]],
    ):
        found = answered(backbone, drafts, Request())
        for one, other in zip(found, expected, strict=True):
            assert_equal(one, other)


def test_an_accepted_draft_takes_no_step(folders: Folders, steps: list[int]) -> None:
    backbone = seamless(folders)
    answers = [one.token_ids.tolist() for one in answered(backbone, [[]] * 3, Request())]
    assert len(steps) >= max(map(len, answers)) - 1
    steps.clear()
    answered(backbone, answers, Request())
    # An answer at the limit of tokens is drafted without its last id
    assert len(steps) <= 1


@pytest.mark.parametrize("request_", [Request(max_words=1), Request(task=Task.TRANSCRIPTION)])
def test_limits_of_words_and_transcripts_have_no_draft(folders: Folders, request_: Request) -> None:
    backbone = seamless(folders)
    expected = answered(backbone, [[]] * 3, request_)
    found = answered(backbone, [[60, 61, 62]] * 3, request_)
    for one, other in zip(found, expected, strict=True):
        assert one.token_ids.tolist() == other.token_ids.tolist()


@pytest.mark.parametrize(
    "policy", [AlignAtt(frames=3), LocalAgreement()], ids=["alignatt", "local_agreement"]
)
@pytest.mark.parametrize("words", [None, 2])
def test_a_stream_writes_the_same_in_fewer_steps(
    folders: Folders,
    steps: list[int],
    monkeypatch: pytest.MonkeyPatch,
    policy: Policy,
    words: int | None,
) -> None:
    audio = white_noise(16_000 * 8, seed=1, scale=0.1)

    def stream() -> list[str]:
        aligned = isinstance(policy, AlignAtt)
        history = RecentWords(words=words) if words and aligned else KeepAll()
        system = new_system(seamless(folders), policy, history, chunk_seconds=0.5)
        system.configure_model()
        session = system.open("talk")
        steps.clear()
        texts = []
        for chunk in range(16):
            samples = audio[8_000 * chunk : 8_000 * (chunk + 1)]
            [action] = system.step([session], [SpeechChunk(samples, final=chunk == 15)])
            texts.append(action.text)
        return texts

    texts, drafted = stream(), len(steps)
    monkeypatch.setattr(SeamlessM4T, "_drafts", lambda *_: None)
    assert stream() == texts
    assert any(texts)
    assert drafted < len(steps)
