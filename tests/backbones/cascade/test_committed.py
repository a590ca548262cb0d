"""Source words on which consecutive transcripts agree."""

from collections.abc import Callable, Sequence

import pytest
import torch

from tests.backbones.cascade.conftest import Make, TimingTranscriber
from zoo.backbones.cascade.cascade import Cascade
from zoo.backbones.cascade.committed import CommittedWords
from zoo.backbones.cascade.timed import TimedTranscript
from zoo.base.errors import ZooError
from zoo.base.types import Capability, Cut, Request, UnitKind
from zoo.policies.alignatt import AlignAtt
from zoo.streaming.session import Session

Live = Callable[..., Session]


@pytest.mark.parametrize(
    ("unit", "transcripts", "committed"),
    [
        (
            "word",
            ["the cat", "the hat sat", "the hat sat down", "a hat sat down here"],
            ["", "the", "the hat sat", "the hat sat down"],
        ),
        ("word", ["we go there", "we go", "we", "we went there"], ["", "we go", "we go", "we go"]),
        ("word", ["", "we", "we"], ["", "", "we"]),
        ("char", ["我们 去", "我们去那", "我们去哪"], ["", "我们去", "我们去"]),
    ],
)
def test_words_of_two_transcripts_are_committed(
    unit: UnitKind, transcripts: Sequence[str], committed: Sequence[str]
) -> None:
    words = CommittedWords(unit)
    for number, (text, expected) in enumerate(zip(transcripts, committed, strict=True), start=1):
        answer = words.commit(TimedTranscript(text, num_frames=number), everything=False)
        assert (answer.text, answer.frames, answer.num_frames) == (expected, None, number)


def test_at_the_end_the_last_words_are_committed() -> None:
    words = CommittedWords("word")
    words.commit(TimedTranscript("we go"), everything=False)
    assert words.commit(TimedTranscript("we went there"), everything=False).text == "we"
    for _ in range(2):
        answer = words.commit(TimedTranscript("we go there by train"), everything=True)
        assert answer.text == "we go there by train"


def test_committed_words_keep_the_frames_at_which_they_were_committed() -> None:
    words = CommittedWords("word")
    words.commit(TimedTranscript("a b", torch.tensor([1, 1, 4]), 5), everything=False)
    first = words.commit(
        TimedTranscript("a b c", torch.tensor([2, 2, 5, 6, 6]), 8), everything=False
    )
    assert first.frames is not None
    assert (first.text, first.frames.tolist()) == ("a b", [2, 2, 5])
    last = words.commit(TimedTranscript("x y c", torch.tensor([0, 1, 2, 3, 4]), 9), everything=True)
    assert last.frames is not None
    assert (last.text, last.frames.tolist(), last.num_frames) == ("a b c", [2, 2, 5, 5, 5], 9)


def sources(backbone: Cascade, session: Session, chunks: Sequence[torch.Tensor]) -> list[str]:
    """Transcripts from which a stream is translated after each chunk."""
    texts = []
    for number, chunk in enumerate(chunks, start=1):
        session.audio = torch.cat([session.audio, chunk])
        session.source_ended = number == len(chunks)
        [answer] = backbone.decode([session], [Request()], frozenset())
        [again] = backbone.decode([session], [Request()], frozenset())
        assert again.transcript == answer.transcript
        assert again.token_ids.tolist() == answer.token_ids.tolist()
        texts.append(answer.transcript or "")
    return texts


@pytest.mark.parametrize(
    ("transcript", "expected"),
    [
        ("latest", ["Julia", "Julia spent", "Julia spent the", "Julia spent the money"]),
        ("committed", ["", "Julia", "Julia spent", "Julia spent the money"]),
    ],
)
def test_the_translator_receives_committed_words(
    transcript: str, expected: list[str], make: Make, live: Live
) -> None:
    backbone = make(transcript=transcript)
    session = live(backbone, [1])
    wave = session.audio
    session.audio = wave[:0]
    chunks = [torch.full_like(wave, level / 10 + 0.05) for level in (1, 2, 3, 4)]
    assert sources(backbone, session, chunks) == expected


def test_committed_words_are_forgotten_with_their_audio(make: Make, live: Live) -> None:
    backbone = make(transcript="committed")
    session = live(backbone, [1, 2, 3])
    for _ in range(2):
        [answer] = backbone.decode([session], [Request()], frozenset())
        session.audio = torch.cat([session.audio, torch.zeros(1600)])
    assert answer.transcript == "Julia spent the"
    backbone.forget(session, Cut(frames=1))
    session.forget(Cut(frames=1))
    transcripts = []
    for _ in range(2):
        [answer] = backbone.decode([session], [Request()], frozenset())
        transcripts.append(answer.transcript)
        session.audio = torch.cat([session.audio, torch.zeros(1600)])
    assert transcripts == ["", "spent the"]


def test_committed_words_are_aligned(make: Make, live: Live) -> None:
    backbone = make(transcriber=TimingTranscriber(), prefix_place="answer", transcript="committed")
    session = live(backbone, [1, 0, 2])
    aligned = frozenset({Capability.ALIGNMENT})
    request = Request(stop_at=AlignAtt(frames=1).attends_to_newest)
    [early] = backbone.decode([session], [request], aligned)
    assert early.num_new_tokens == 0
    session.audio = torch.cat([session.audio, torch.full((1600,), 0.35)])
    [answer] = backbone.decode([session], [request], aligned)
    assert answer.transcript == "Julia spent"
    weights = answer.require_alignment().sum(dim=0)
    assert [bool(weight) for weight in weights] == [True, False, True, False]


def test_an_unknown_transcript_is_refused(make: Make) -> None:
    with pytest.raises(ZooError, match=r"transcript 'all'; choose one of: latest, committed"):
        make(transcript="all")
