"""``transformers serve`` with a tiny Qwen2-Audio; needs its own environment (docs/servers.md)."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.fixtures.streams import new_session, white_noise
from tests.fixtures.tiny_checkpoints import qwen2_audio
from zoo.base.errors import ZooError
from zoo.base.types import Request, Task
from zoo.extras.chat_server.chat_server import ChatServer

PYTHON = os.environ.get("TRANSFORMERS_SERVE_PYTHON")  # of an environment with transformers[serving]
pytestmark = pytest.mark.skipif(
    PYTHON is None, reason="TRANSFORMERS_SERVE_PYTHON names no environment with a server"
)
STARTS_WITHIN = 300.0  # seconds


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """URL of the API and name of its model."""
    model = tmp_path_factory.mktemp("model")
    qwen2_audio(model)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(PYTHON), "-m", "transformers.cli.transformers", "serve", str(model)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    with (
        (model / "log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT) as process,
    ):
        try:
            for _ in range(int(STARTS_WITHIN)):
                try:
                    httpx.get(f"http://127.0.0.1:{port}/health", timeout=5)
                    break
                except httpx.TransportError:
                    assert process.poll() is None, (model / "log").read_text()
                    time.sleep(1)
            yield f"http://127.0.0.1:{port}/v1", str(model)
        finally:
            process.terminate()


def test_transcripts_and_translations_of_audio(server: tuple[str, str]) -> None:
    url, model = server
    backbone = ChatServer(url=url, model=model, prefix_place="prompt", max_tokens=12)
    backbone.load()
    sessions = [new_session(backbone, white_noise(16_000, seed)) for seed in (0, 1)]
    sessions[1].prefix_ids = new_session(prefix=[ord(sign) for sign in "Das Haus"]).prefix_ids
    requests = [Request(task=Task.TRANSCRIPTION), Request(max_words=2)]
    transcript, translation = backbone.decode(sessions, requests, frozenset())
    assert transcript.transcript is not None
    assert len(transcript.word_starts) == transcript.num_new_tokens
    assert translation.prefix_length == len("Das Haus")
    again = backbone.decode(sessions[1:], requests[1:], frozenset())[0]
    assert again.token_ids.tolist() == translation.token_ids.tolist()


def test_it_cannot_continue_an_answer_and_has_one_model(server: tuple[str, str]) -> None:
    url, model = server
    with pytest.raises(ZooError, match="prefix_place=prompt"):
        ChatServer(url=url, model=model, retries=0).load()
    with pytest.raises(ZooError, match="huge"):
        ChatServer(url=url, model="huge", prefix_place="prompt", retries=0).load()
