"""simulstream drives our processor; runs in an environment with simulstream (docs/interop.md)."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tests.extras.interop.conftest import OVERRIDES, SYSTEM, Spoken
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.types import Action, Instance
from zoo.formats.logs import read_log
from zoo.formats.simulstream import SCORING

pytest.importorskip("simulstream", reason="simulstream is not installed")

CONFIG = {
    "type": "zoo.extras.interop.simulstream.SystemProcessor",
    "system": SYSTEM,
    "overrides": list(OVERRIDES),
    "device": "cpu",
    **SCORING,
}


def test_the_words_and_delays_are_those_of_an_evaluation(
    spoken: Spoken, translated: list[Instance], tmp_path: Path
) -> None:
    (tmp_path / "processor.yaml").write_text(yaml.safe_dump(CONFIG))
    command = [
        *(sys.executable, "-m", "simulstream.inference", "--src-lang", "en", "--tgt-lang", "de"),
        *("--speech-processor-config", "processor.yaml", "--wav-list-file", str(spoken.sources)),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

    log = tmp_path / "metrics.json"
    theirs = read_log(log, language=language("de"), format="simulstream")
    for our, their in zip(translated, theirs, strict=True):
        assert our.units
        assert (our.talk, our.units) == (their.talk, their.units)
        assert our.delays == pytest.approx(their.delays)


@pytest.fixture(scope="module")
def pool() -> Any:
    """Processors of two clients, as simulstream's server creates them."""
    from simulstream.server.websocket_server import SpeechProcessorPool

    return SpeechProcessorPool(SimpleNamespace(**CONFIG), size=2, acquire_timeout=1)


def test_two_clients_of_the_server_do_not_disturb_each_other(
    spoken: Spoken, translated: list[Instance], pool: Any
) -> None:
    from simulstream.server.websocket_server import connection_handler_factory
    from websockets.asyncio.client import connect
    from websockets.asyncio.server import serve

    async def client(port: int, samples: Any) -> str:
        text = ""
        async with connect(f"ws://localhost:{port}") as socket:
            await socket.send(json.dumps({"sample_rate": 16_000, "target_lang": "de"}))
            pcm = (samples.numpy() * 2**15).astype("int16")
            for start in range(0, len(pcm), 1600):  # as the browser does, in small pieces
                await socket.send(pcm[start : start + 1600].tobytes())
            await socket.send(json.dumps({"end_of_stream": True}))
            async for message in socket:
                received = json.loads(message)
                text += received.get("new", "")
                if "end_of_processing" in received:
                    break
        return text

    async def both() -> list[str]:
        async with serve(connection_handler_factory(pool), "localhost", 0) as server:
            port = server.sockets[0].getsockname()[1]
            return await asyncio.gather(*(client(port, samples) for samples in spoken.samples))

    texts = asyncio.run(both())
    assert [text.split() for text in texts] == [list(our.units) for our in translated]


def test_another_language_is_refused(pool: Any) -> None:
    processor = pool.available.get_nowait()
    with pytest.raises(ZooError, match="target language of the system is 'de', not 'it'"):
        processor.set_target_language("it")
    pool.available.put_nowait(processor)


def test_deleted_tokens_are_those_that_were_emitted() -> None:
    """Deletions of characters become deletions of tokens; the rest of a token is emitted again."""
    import numpy as np

    from zoo.extras.interop.simulstream import SystemProcessor

    actions = [
        Action("Guten Tag"),
        Action("Abend", retracted=3),
        Action("e und", retracted=1),
        Action("", retracted=4),
        Action("Hallo", retracted=11),
    ]

    class Scripted:
        def receive(self, samples: Any, *, final: bool) -> Action:
            return actions.pop(0)

    processor = SystemProcessor.__new__(SystemProcessor)
    processor._stream, processor._tokens = Scripted(), []
    texts, tokens = [], []
    while actions:
        output = processor.process_chunk(np.zeros(1, dtype=np.float32))
        if output.deleted_tokens:
            assert tokens[-len(output.deleted_tokens) :] == output.deleted_tokens
            del tokens[-len(output.deleted_tokens) :]
        tokens += output.new_tokens
        texts.append(processor.tokens_to_string(tokens))
    assert texts == ["Guten Tag", "Guten Abend", "Guten Abene und", "Guten Abene", "Hallo"]
