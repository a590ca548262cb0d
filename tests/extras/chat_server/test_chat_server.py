"""Streams through a server: prefixes, word limits, batches; wrong set-ups are refused first."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import torch

from tests.fixtures.chat_server import ChatModel, serving
from tests.fixtures.streams import new_session, white_noise
from zoo.backbones.base import without_weights
from zoo.base.errors import ZooError
from zoo.base.types import Cut, Hypothesis, Instance, Request, SpeechChunk, Task
from zoo.config import build, compose
from zoo.extras.chat_server.chat_server import ChatServer
from zoo.streaming.session import Session
from zoo.streaming.simulate import Source, simulate

Connect = Callable[..., ChatServer]
NOTHING: frozenset[Any] = frozenset()
SECONDS = 16_000  # samples


@pytest.fixture
def connect() -> Iterator[Connect]:
    """``connect(model, option=...)``: a loaded backbone of a server with this model."""
    with ExitStack() as stack:

        def start(server: ChatModel, **options: Any) -> ChatServer:
            backbone = ChatServer(
                **{"url": stack.enter_context(serving(server)), "retries": 0} | options
            )
            backbone.load()
            return backbone

        yield start


def stream(backbone: ChatServer, prefix: str = "", *, target: str = "de", seed: int = 0) -> Session:
    """A stream with six blocks of noise."""
    ids = [ord(sign) for sign in prefix]
    return new_session(
        backbone, white_noise(3 * SECONDS, seed, scale=0.1), prefix=ids, target=target
    )


def decode(backbone: ChatServer, session: Session, **request: Any) -> Hypothesis:
    [hypothesis] = backbone.decode([session], [Request(**request)], NOTHING)
    return hypothesis


def text(backbone: ChatServer, hypothesis: Hypothesis) -> str:
    return backbone.text(hypothesis.token_ids.tolist())


@pytest.mark.parametrize("place", ["answer", "prompt"])
def test_a_written_translation_is_continued(connect: Connect, place: str) -> None:
    backbone = connect(ChatModel(), prefix_place=place)
    whole = text(backbone, decode(backbone, stream(backbone)))
    words = whole.split(" ")
    assert len(words) == 6

    prefix = " ".join(words[:2])
    rest = decode(backbone, stream(backbone, prefix))
    assert prefix + text(backbone, rest) == whole
    assert (rest.prefix_length, len(rest.word_starts)) == (len(prefix), len(whole))
    assert int(rest.word_starts.sum()) == len(words)
    assert rest.finished
    done = decode(backbone, stream(backbone, whole))
    assert (done.num_new_tokens, done.finished) == (0, True)


@pytest.mark.parametrize("piece", [1, 4, 1000])
def test_an_answer_ends_after_the_wanted_words_for_any_size_of_events(
    connect: Connect, piece: int
) -> None:
    backbone = connect(ChatModel(piece=piece))
    whole = text(backbone, decode(backbone, stream(backbone))).split(" ")
    limited = decode(backbone, stream(backbone, whole[0]), max_words=2)
    assert text(backbone, limited) == f" {whole[1]} {whole[2]} "
    assert not limited.finished
    assert limited.tokens_in_first_words(2) == len(f" {whole[1]} {whole[2]}")


@pytest.mark.parametrize(("words", "ended"), [("jieba", "天气很"), ("characters", "天气")])
def test_words_of_chinese_are_counted_as_configured(
    connect: Connect, words: str, ended: str
) -> None:
    model = ChatModel(target=("天气很",) * 5, joint="")
    backbone = connect(model, words=words)
    limited = decode(backbone, stream(backbone, target="zh"), max_words=1)
    assert text(backbone, limited) == ended


def test_a_transcript_is_requested_once_and_forced_afterwards(connect: Connect) -> None:
    model = ChatModel()
    backbone = connect(model)
    session = stream(backbone)
    transcript = decode(backbone, session, task=Task.TRANSCRIPTION)
    sent = len(model.requests)
    assert transcript.transcript == text(backbone, transcript)
    assert len(str(transcript.transcript).split()) == 6
    assert transcript.sentence_ends is not None
    assert int(transcript.sentence_ends.sum()) == 1

    decode(backbone, session)
    decode(backbone, session, transcript_ids=transcript.token_ids)
    assert len(model.requests) == sent + 2
    begun = [request["messages"][-1]["content"] for request in model.requests[sent:]]
    assert begun == [f"{transcript.transcript} <sep>"] * 2

    backbone.forget(session, Cut(frames=50))
    session.forget(Cut(frames=50))
    assert decode(backbone, session, task=Task.TRANSCRIPTION).transcript
    assert len(model.requests) == sent + 3


def test_direct_answers_need_no_transcript(connect: Connect) -> None:
    model = ChatModel()
    backbone = connect(model, direct=True)
    assert text(backbone, decode(backbone, stream(backbone)))
    assert len(model.requests) == 2  # the first one is that of ``load``
    with pytest.raises(ZooError, match="needs transcript, which backbone ChatServer does not"):
        build(
            compose(
                "evaluate", ["system=streamuni", "backbone=chat_server", "backbone.direct=true"]
            ).system
        )


def test_an_answer_at_the_limit_of_tokens_is_truncated(connect: Connect) -> None:
    backbone = connect(ChatModel(), max_tokens=2, direct=True)
    hypothesis = decode(backbone, stream(backbone))
    assert hypothesis.truncated
    assert hypothesis.finished


def test_the_requests_of_a_batch_are_sent_at_the_same_time(connect: Connect) -> None:
    model = ChatModel(gate=threading.Barrier(3))  # the server answers three requests together
    backbone = connect(model, direct=True)
    sessions = [stream(backbone, seed=seed) for seed in range(3)]
    together = backbone.decode(sessions, [Request()] * 3, NOTHING)
    model.gate = None
    alone = [decode(backbone, session) for session in sessions]
    assert [text(backbone, one) for one in together] == [text(backbone, one) for one in alone]
    assert len({text(backbone, one) for one in alone}) == 3


def translated(*overrides: str) -> Instance:
    """A talk of ten blocks of noise."""
    system = build(compose("evaluate", ["history=keep_all", *overrides]).system)
    system.configure_model()
    audio = white_noise(5 * SECONDS, scale=0.1)
    [instance] = simulate(system.eval(), [Source("talk", audio.split(system.chunk_samples))])
    return instance


@pytest.mark.parametrize("place", ["answer", "prompt"])
@pytest.mark.parametrize(
    "system",
    [
        ("system=streamuni", "policy.k=1", "policy.truncate=false"),
        ("system=local_agreement",),
        ("system=wait_k", "policy.k=2", "policy.count=words"),
        ("system=wait_k", "policy.k=2", "backbone.direct=true"),
    ],
)
def test_a_policy_writes_the_offline_translation_in_time(
    system: tuple[str, ...], place: str
) -> None:
    with serving(ChatModel()) as url:
        given = ["backbone=chat_server", f"backbone.url={url}", "system.chunk_seconds=0.5"]
        instance = translated(*system, *given, f"backbone.prefix_place={place}")
        offline = translated("system=wait_k", "policy=read_all", "system.knob=null", *given)
    assert instance.text == offline.text
    assert len(instance.units) == 10
    assert instance.delays[0] <= 2.0
    assert set(offline.delays) == {5.0}


def test_a_cascade_takes_its_transcripts_from_a_server() -> None:
    given = ["system=streamatt", "backbone=cascade_minitalks", "policy=wait_k", "policy.k=1"]
    given += ["history=keep_all"]
    with serving(ChatModel()) as url:
        given += ["backbone@backbone.transcriber=chat_server", f"backbone.transcriber.url={url}"]
        system = build(compose("evaluate", given).system)
        system.backbone.transcriber.load()
        session = new_session(system.backbone.transcriber, white_noise(2 * SECONDS, scale=0.1))
        [found] = system.backbone.transcriber.decode(
            [session], [Request(task=Task.TRANSCRIPTION)], NOTHING
        )
    assert found.transcript


def test_a_model_that_the_server_lacks_is_refused_with_those_that_it_has(connect: Connect) -> None:
    with pytest.raises(ZooError, match=r"has no model 'huge'; choose one of: tiny, small\.$"):
        connect(ChatModel(models=["tiny", "small"]), model="huge")
    with pytest.raises(ZooError, match=r"lists 2 models, so .* one; choose one of: tiny, small\.$"):
        connect(ChatModel(models=["tiny", "small"]))
    with pytest.raises(ZooError, match=r"lists 0 models, so backbone.model must name one\.$"):
        connect(ChatModel(models=None))
    assert connect(ChatModel(models=None), model="any").served == "any"


def test_a_server_that_cannot_continue_is_refused_when_it_is_loaded(connect: Connect) -> None:
    with pytest.raises(ZooError, match=r"continue_final_message\)\. .*prefix_place=prompt"):
        connect(ChatModel(continues=False))
    assert connect(ChatModel(continues=False), prefix_place="prompt")


def test_no_server_is_contacted_that_is_not_named() -> None:
    with pytest.raises(ZooError, match=r"^backbone=chat_server needs backbone\.url"):
        ChatServer().load()
    with without_weights():
        ChatServer().load()


@pytest.mark.parametrize(
    "url",
    [
        *("127.0.0.1:8000/v1", "ftp://host/v1", "ws://host/v1", "http://host:99999/v1"),
        *("http://me:secret@host/v1", "http://host/v1?key=secret", "http://host/v1#secret"),
    ],
)
def test_an_address_that_is_none_or_has_a_password_is_refused(url: str) -> None:
    problem = (
        r"^backbone\.url must be an address such as http://127\.0\.0\.1:8000/v1 without password, "
        r"query and #, .* \(backbone\.api_key_variable\)\.$"
    )
    with pytest.raises(ZooError, match=problem) as refused:
        ChatServer(url=url)
    assert "secret" not in str(refused.value)


def test_what_a_server_cannot_do_is_refused_before_it_is_contacted() -> None:
    given = ["backbone=chat_server", "backbone.url=http://127.0.0.1:9/v1"]
    with pytest.raises(ZooError, match="needs alignment, which backbone ChatServer does not"):
        build(compose("evaluate", ["system=streamatt", *given]).system)
    with pytest.raises(ZooError, match="needs turns, which backbone ChatServer does not"):
        build(compose("evaluate", ["system=infinisst", *given]).system)


def test_the_longest_audio_is_checked_before_it_is_sent() -> None:
    assert ChatServer(longest_seconds=30).longest_input == 30 * SECONDS
    assert ChatServer().longest_input is None


def test_audio_of_one_sample_is_answered(connect: Connect) -> None:
    backbone = connect(ChatModel())
    session = new_session(backbone)
    session.receive(SpeechChunk(torch.full((1,), 0.5)))
    assert decode(backbone, session).finished
