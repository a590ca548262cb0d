"""Every policy with every compatible history, on scripted networks."""

from collections.abc import Callable
from itertools import pairwise, product

import pytest
import torch

from tests.contract.scripted import FRAME, WORD_FRAMES, Scripted, source, speak, text_of
from tests.fixtures.streams import new_system
from zoo.base.errors import ZooError
from zoo.base.types import SAMPLE_RATE, Capability, Hypothesis, Instance, Request, SpeechChunk
from zoo.history.base import History
from zoo.history.keep_all import KeepAll
from zoo.history.punctuation import Punctuation
from zoo.history.recent_words import RecentWords
from zoo.history.reference_segments import ReferenceSegments
from zoo.history.voice_activity import VoiceActivity
from zoo.policies.alignatt import AlignAtt
from zoo.policies.base import Policy
from zoo.policies.edatt import EDAtt
from zoo.policies.local_agreement import LocalAgreement
from zoo.policies.read_all import ReadAll
from zoo.policies.transcript_wait_k import TranscriptWaitK
from zoo.policies.wait_k import WaitK
from zoo.streaming.session import Session
from zoo.streaming.simulate import simulate
from zoo.systems.base import StreamingSystem

FRAME_SECONDS = FRAME / SAMPLE_RATE

POLICIES: dict[str, Callable[[], Policy]] = {
    "alignatt": lambda: AlignAtt(frames=2),
    "alignatt, last word dropped": lambda: AlignAtt(frames=2, rewind=9, last_word="dropped"),
    "edatt": lambda: EDAtt(alpha=0.5, last_frames=3),
    "local agreement of 2": lambda: LocalAgreement(n=2),
    "local agreement of 3": lambda: LocalAgreement(n=3),
    "wait-k": lambda: WaitK(k=3),
    "wait-k by words": lambda: WaitK(k=2, count="words"),
    "read all": ReadAll,
    "streamuni": lambda: TranscriptWaitK(k=1),
    "streamuni, not truncating": lambda: TranscriptWaitK(k=1, truncate=False),
}
HISTORIES: dict[str, Callable[[], History]] = {
    "keep all": KeepAll,
    "recent words": lambda: RecentWords(words=2),
    "recent words, always cut": lambda: RecentWords(
        words=3, cut="always", min_seconds=5 * FRAME_SECONDS
    ),
    "punctuation": Punctuation,
    "punctuation, after": lambda: Punctuation(keep="after", rows="hypothesis"),
    "punctuation, capped": lambda: Punctuation(keep="after", rows="hypothesis", max_tokens=5),
    "punctuation, sentence": lambda: Punctuation(keep="sentence", cut="always"),
    "voice activity": lambda: VoiceActivity(
        min_seconds=8 * FRAME_SECONDS,
        max_seconds=40 * FRAME_SECONDS,
        pause_seconds=2 * FRAME_SECONDS,
        pad_seconds=FRAME_SECONDS,
        detector=lambda: lambda window: float(window[0] >= 1),
    ),
    "reference segments": ReferenceSegments,
}
TALKS = {
    "seven": [1, 2, 3, 4, 5, 6, 7],
    "none": [],
    "one": [8],
    "sentences": [1, 2, 51, 3, 4, 5, 52, 6],
    "only ends": [51, 52, 53, 54, 51],
    "pauses": [0, 0, 1, 2, 0, 0, 0, 0, 3, 4, 5, 0, 0, 6, 51, 8, 9],
    "silence": [0, 0, 0, 0, 0],
    "long": [*range(1, 9), 0, *range(9, 17), 0, 0, 60, 0, *range(1, 9), 0, *range(20, 28)],
}


def build(
    policy: Policy, history: History, *, chunk_frames: int = 3, backbone: Scripted | None = None
) -> StreamingSystem:
    return new_system(
        backbone or Scripted(), policy, history, chunk_seconds=chunk_frames * FRAME_SECONDS
    )


def stream(system: StreamingSystem, batch_size: int) -> list[Instance]:
    """All talks, by their index."""
    sources = [source(words, system.chunk_samples, talk) for talk, words in TALKS.items()]
    return sorted(
        simulate(system, sources, batch_size=batch_size), key=lambda instance: instance.index
    )


@pytest.mark.parametrize(("policy", "history"), list(product(POLICIES, HISTORIES)))
def test_each_policy_with_each_history_writes_every_word_once_and_in_order(
    policy: str, history: str
) -> None:
    system = build(POLICIES[policy](), HISTORIES[history]())
    for instance, words in zip(stream(system, 5), TALKS.values(), strict=True):
        assert instance.text == text_of(words), instance.talk
        assert all(before <= after for before, after in pairwise(instance.delays))


@pytest.mark.parametrize("chunk_frames", [1, 7, 50])
@pytest.mark.parametrize("history", HISTORIES)
def test_every_word_is_written_at_any_chunk_size(history: str, chunk_frames: int) -> None:
    system = build(AlignAtt(frames=2), HISTORIES[history](), chunk_frames=chunk_frames)
    for words in TALKS.values():
        [instance] = simulate(system, [source(words, system.chunk_samples)])
        assert instance.text == text_of(words)


def test_edatt_on_one_hot_attention_is_alignatt() -> None:
    edatt = stream(build(EDAtt(alpha=0.5, last_frames=2), KeepAll()), 1)
    alignatt = stream(build(AlignAtt(frames=2), KeepAll()), 1)
    assert [instance.delays for instance in edatt] == [instance.delays for instance in alignatt]


def test_read_all_writes_when_the_source_or_its_segment_has_ended() -> None:
    words = [1, 2, 0, 3]
    for history, ends in (("keep all", (16, 16, 16)), ("reference segments", (9, 9, 16))):
        system = build(ReadAll(), HISTORIES[history]())
        [instance] = simulate(system, [source(words, system.chunk_samples)])
        assert instance.delays == pytest.approx(tuple(end * FRAME_SECONDS for end in ends))
        assert len(system.backbone.requests) == len(set(ends))  # type: ignore[arg-type]


def test_wait_k_by_words_follows_the_words_and_not_the_chunks() -> None:
    """Word i is complete when word i + 1 begins; silence permits no write."""
    system = build(WaitK(k=2, count="words"), KeepAll(), chunk_frames=1)
    words = [1, 2, 0, 0, 3, 4, 5]
    [instance] = simulate(system, [source(words, system.chunk_samples)])
    # of words 3 to 5: two, three, four were received
    begins = [index * WORD_FRAMES + 1 for index in (4, 5, 6)]
    assert instance.delays == pytest.approx(
        tuple(frame * FRAME_SECONDS for frame in [*begins, 28, 28])
    )


def test_wait_k_by_words_is_refused_where_nothing_is_transcribed() -> None:
    class Mute(Scripted):
        """Has no transcript."""

        exposes = Scripted.exposes - {Capability.TRANSCRIPT}

    build(WaitK(k=2), KeepAll(), backbone=Mute())
    with pytest.raises(
        ZooError, match="WaitK needs transcript, which backbone Mute does not expose"
    ):
        build(WaitK(k=2, count="words"), KeepAll(), backbone=Mute())


def test_nothing_is_asked_about_what_lies_between_segments() -> None:
    for history in ("voice activity", "reference segments"):
        system = build(LocalAgreement(n=2), HISTORIES[history](), chunk_frames=WORD_FRAMES)
        list(simulate(system, [source([0, 0, 0, 1, 2, 3, 0, 0, 0, 0], system.chunk_samples)]))
        assert len(system.backbone.requests) in (3, 4)  # type: ignore[arg-type]  # a translation per word, and the flush


def test_segments_without_any_reference_are_refused_in_one_sentence() -> None:
    system = build(AlignAtt(frames=2), ReferenceSegments())
    with pytest.raises(ZooError, match="stream 'talk' has none"):
        system.step([system.open("talk")], [SpeechChunk(torch.ones(FRAME))])


class Silent(Scripted):
    """Recognises words and writes nothing."""

    def answer(
        self, session: Session, request: Request, needs: frozenset[Capability]
    ) -> Hypothesis:
        none = torch.zeros(0)
        return Hypothesis(
            none.long(),
            none.bool(),
            sentence_ends=none.bool(),
            alignment=torch.zeros(0, session.visible_frames),
        )


LONG = 10 * 60  # seconds
WORDS = round(LONG / (WORD_FRAMES * FRAME_SECONDS))


@pytest.mark.parametrize(
    ("history", "tokens"),
    [
        (RecentWords(words=20), 2 * 20),
        (RecentWords(words=20, cut="always", min_seconds=2), 2 * 20),
        (Punctuation(keep="after", rows="hypothesis"), 2 * 30),
        (Punctuation(keep="sentence"), 2 * 60),
    ],
)
def test_a_long_talk_keeps_text_and_audio_bounded(history: History, tokens: int) -> None:
    """Sentences of 30 words; beside what is kept, a chunk's words may be waiting."""
    words = [60 if index % 30 == 29 else index % 30 + 1 for index in range(WORDS)]
    text, most_text, most_audio = run_long(
        build(AlignAtt(frames=4), history, chunk_frames=60), words
    )
    assert text == text_of(words)
    assert most_text <= tokens
    assert most_audio <= (tokens // 2 + 60 // WORD_FRAMES + 2) * WORD_FRAMES * FRAME


@pytest.mark.parametrize(
    "history", [RecentWords(words=20, max_seconds=8), Punctuation(max_seconds=8)]
)
def test_memory_stays_bounded_without_output(history: History) -> None:
    system = build(AlignAtt(frames=4), history, chunk_frames=250, backbone=Silent())
    text, most_text, most_audio = run_long(system, [1] * WORDS)
    assert (text, most_text) == ("", 0)
    assert most_audio == 8 * SAMPLE_RATE


def test_a_long_talk_without_any_punctuation_stays_bounded() -> None:
    words = [index % 30 + 1 for index in range(WORDS)]
    history = Punctuation(max_tokens=50)
    text, most_text, most_audio = run_long(
        build(AlignAtt(frames=4), history, chunk_frames=60), words
    )
    assert text == text_of(words)
    assert most_text == 50
    assert most_audio <= (25 + 60 // WORD_FRAMES + 2) * WORD_FRAMES * FRAME


def run_long(system: StreamingSystem, words: list[int]) -> tuple[str, int, int]:
    """Text, and the most tokens and samples that were kept after a chunk."""
    session, texts, tokens, samples = system.open("talk"), [], [0], [0]
    chunks = speak(words).split(system.chunk_samples)
    for index, chunk in enumerate(chunks):
        last = index == len(chunks) - 1
        texts.append(system.step([session], [SpeechChunk(chunk, final=last)])[0].text)
        if not last:
            tokens.append(session.prefix_ids.numel())
            samples.append(session.audio.numel())
    return "".join(texts), max(tokens), max(samples)
