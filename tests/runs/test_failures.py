"""W&B with a server that refuses, hangs or rejects the key, and with a full disk: the run goes on.

All servers are sockets of this machine. Each case has one warning.
"""

import errno
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import wandb

from zoo.runs import media
from zoo.runs.loggers import WandbLogger
from zoo.runs.run import open_run
from zoo.runs.tracker import Tracker
from zoo.runs.wandb_run import WandbRun, WandbSettings

LIMIT = 60.0  # seconds after which a run with timeouts of 2 s counts as hanging


def started(run_id: str) -> dict[str, Any]:
    """What W&B's client needs to start a run."""
    project = {"id": "1", "name": "p", "entity": {"id": "1", "name": "e"}}
    bucket = {"id": "1", "name": run_id, "displayName": "x", "project": project}
    return {"upsertBucket": {"bucket": bucket, "inserted": True}}


@contextmanager
def server(
    status: int | None, run_id: str = "", silent: threading.Event | None = None
) -> Iterator[str]:
    """Yield the address of a server that answers with a status, or never (None).

    Args:
        status: HTTP status of an error.
        run_id: id of a run that the server starts.
        silent: until it is set, the server answers; None: no run starts.
    """
    done = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            starting = silent is not None and not silent.is_set()
            if status is None and not starting:
                done.wait(LIMIT)
                return
            failed = {"errors": [{"message": "user is not logged in"}]}
            body = json.dumps({"data": started(run_id)} if starting else failed).encode()
            self.send_response(200 if starting else status or 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST

        def log_message(self, *_: Any) -> None:
            pass

    served = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=served.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{served.server_port}"
    finally:
        done.set()
        served.shutdown()
        served.server_close()
        thread.join()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith("zoo.") and record.levelno >= logging.WARNING
    ]


def track(folder: Path) -> None:
    """A short run, in a thread that may not outlive its timeouts."""
    settings = WandbSettings(mode="online", init_timeout=2.0, finish_timeout=2.0)
    run = open_run(folder, kind="evaluate")

    def work() -> None:
        with Tracker(run, config={"seed": 1}, settings=settings) as tracker:
            tracker.log_scores("tst/en-de", {"BLEU": 1.0}, labels={}, charted=["BLEU"])
            tracker.log_media("results", lambda: media.table(["a"], [[1]]))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(LIMIT)
    assert not thread.is_alive(), "W&B keeps the run waiting"


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An API key of the right form; W&B's service is stopped, which reads the environment once."""
    monkeypatch.setenv("WANDB_API_KEY", "k" * 40)
    wandb.teardown()
    yield
    wandb.teardown()


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize("status", [401, 403, 503, None])
def test_a_server_that_fails_or_hangs(
    status: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with server(status) as address:
        monkeypatch.setenv("WANDB_BASE_URL", address)
        track(tmp_path / "run")
    [message] = warnings(caplog)
    assert message.startswith("W&B continues offline: ")
    assert "tst/en-de/BLEU" in (tmp_path / "run" / "metrics.csv").read_text()
    assert list((tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb"))


@pytest.mark.usefixtures("key")
def test_a_server_that_stops_answering_does_not_hold_up_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    silent = threading.Event()
    settings = WandbSettings(mode="online", init_timeout=30.0, finish_timeout=2.0)
    run = open_run(tmp_path / "run", kind="evaluate")

    def work() -> None:
        with Tracker(run, config={}, settings=settings) as tracker:
            silent.set()
            tracker.log_scores("tst/en-de", {"BLEU": 1.0}, labels={}, charted=["BLEU"])

    with server(None, run.id, silent) as address:
        monkeypatch.setenv("WANDB_BASE_URL", address)
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(LIMIT)
        assert not thread.is_alive(), "W&B keeps the run waiting"
    [message] = warnings(caplog)
    assert "not all data was uploaded in time; upload it later with: wandb sync " in message
    folder = Path(message.rpartition(" ")[2])
    assert list(folder.glob("*.wandb"))


class Full:
    """A W&B run whose every call fails as on a full disk."""

    project, offline, dir = "p", True, "x/files"

    def log(self, row: dict[str, float]) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def save(self, *_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def finish(self, exit_code: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_named_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = open_run(tmp_path / "run", kind="evaluate")
    with Tracker(run, config={}, settings=WandbSettings(mode="disabled")) as tracker:
        failing = tracker._wandb = WandbRun(Full())  # type: ignore[arg-type]
        WandbLogger(run, failing).log_metrics({"train/loss": 0.5}, step=1)
        for _ in range(3):
            tracker.log_scores("tst/en-de", {"BLEU": 1.0}, labels={}, charted=["BLEU"])
        tracker.log_file(run.folder / "metrics.csv")
    [message] = warnings(caplog)
    assert message == ("W&B failed, the run goes on without it: [Errno 28] No space left on device")
    assert "tst/en-de/BLEU" in (run.folder / "metrics.csv").read_text()


def test_an_upload_that_takes_too_long_is_left_for_later(caplog: pytest.LogCaptureFixture) -> None:
    class Slow(Full):
        def finish(self, exit_code: int) -> None:
            raise TimeoutError("Timed out after 600 seconds")

    WandbRun(Slow()).finish(0)  # type: ignore[arg-type]
    [message] = warnings(caplog)
    assert message.endswith("not all data was uploaded in time; upload it later with: wandb sync x")
