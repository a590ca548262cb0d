"""A live server: loads the systems, opens the port, serves until a signal."""

import logging
import secrets
import signal
import socket
import threading
import webbrowser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from ssl import SSLContext
from types import FrameType
from urllib.parse import quote

import torch
import uvicorn
from starlette.types import ASGIApp

from zoo.apps.live.guard import Access
from zoo.apps.live.hub import Hub
from zoo.apps.live.listening import BACKLOG, Listening, SocketProtocol, connection_limit, is_news
from zoo.apps.live.server import application
from zoo.apps.live.settings import Address, Limits
from zoo.apps.translate.work import streaming_system
from zoo.base.errors import ZooError
from zoo.base.languages import DETECTED
from zoo.base.machine.signals import leave_terminal
from zoo.base.talks import Talk, without_references
from zoo.base.types import SAMPLE_RATE
from zoo.config import Config, build, compose, machine, overrides, plain, run_folder
from zoo.config.writing import override_key
from zoo.data.corpora import Corpus
from zoo.runs.run import ensure_writable, open_run
from zoo.streaming.simulate import Source, warm_up
from zoo.streaming.sources import DAY, WARM_UP
from zoo.systems.base import StreamingSystem

logger = logging.getLogger(__name__)
GRACE = 5  # seconds for connections to end when the server ends
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Server(uvicorn.Server):
    """uvicorn's server, which a signal ends without an exception."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End the server at SIGINT, SIGTERM and SIGHUP, and restore the handlers after it.

        A shell that starts a command with ``nohup`` ignores SIGHUP for it.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        is_ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        numbers = SIGNALS if is_ignored else (*SIGNALS, signal.SIGHUP)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End the server after all logs are written."""
        leave_terminal(sig)
        super().handle_exit(sig, frame)


def serve(cfg: Config, address: Address, limits: Limits) -> None:
    """Serve the systems of a configuration until a signal.

    Args:
        cfg: configuration.
        address: where the server listens.
        limits: what it takes.

    Raises:
        ZooError: a system is wrong, the address is in use or is none of this machine, or the files
            for TLS are wrong.
    """
    tls = address.tls()
    systems = build_systems(cfg)
    access = Access(token(address), tuple(cfg.origins))
    ensure_writable(run_folder())
    with listen(address, limits) as listening:
        device = machine(cfg)
        torch.manual_seed(cfg.seed)
        for of_name in systems.values():
            load_systems(of_name, device)
        offered = talks(cfg, systems)
        run = open_run(run_folder(), kind="live")
        hub = Hub(systems, limits=limits, folder=run.folder, talks=offered)
        page = url(address, listening, access)
        print(f"SimulZoo live: {page} (Ctrl-C ends it)", flush=True)
        print(f"logs: {run.folder}", flush=True)
        logger.info("The server is ready: %s", ", ".join(systems))  # opens the file of the log
        if cfg.browser:
            webbrowser.open(page)
        app = application(hub, access=access, listening=listening)
        new_server(app, limits, tls=tls).run(sockets=[listening])


def new_server(app: ASGIApp, limits: Limits, *, tls: SSLContext | None = None) -> Server:
    """Return the server of a web application.

    Its event loop and its HTTP are those of pure Python also where faster ones are installed,
    which do not use ``Listening``.

    Args:
        app: The application.
        limits: Has the largest message.
        tls: Certificate and key; None: no TLS.
    """
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http="h11",
        ws=SocketProtocol,
        ws_max_size=limits.message_bytes,
        ws_ping_timeout=None,  # an answer waits behind the audio of a fast client; see idle_seconds
        ws_per_message_deflate=False,  # of no use for samples
        log_config=None,  # to the log of the run
        log_level="error",  # warnings are those of each wrong request
        access_log=False,
        proxy_headers=False,  # ``Listening`` knows the address of the connection
        backlog=BACKLOG,
        timeout_graceful_shutdown=GRACE,
    )
    logging.getLogger("uvicorn.error").addFilter(is_news)
    config.load()
    config.ssl = tls
    return Server(config)


def build_systems(cfg: Config) -> Mapping[str, Sequence[StreamingSystem]]:
    """Return the systems of a configuration by name, without weights.

    Those of one name are one system at several values of its latency knob. Systems whose backbones
    have the same configuration have one backbone.

    Raises:
        ZooError: ``compare`` is malformed, or a system is wrong or cannot translate a day of audio.
    """
    entries = plain(cfg)["compare"]
    if entries is None:
        configurations = {str(cfg.system.name): cfg}
    elif isinstance(entries, Mapping) and entries and all(map(_is_entry, entries.values())):
        configurations = {
            name: compose("live", [*_shared(), *entry]) for name, entry in entries.items()
        }
    else:
        raise ZooError(f'compare must look like {{name: ["key=value"], other: []}}, not {entries}.')
    systems = {name: at_latencies(one) for name, one in configurations.items()}
    for name, of_name in systems.items():
        for system in of_name:
            live = without_references("live", None, DAY, system.source_language.code)
            if problem := system.talk_problem([live]):
                raise ZooError(f"System {name!r}: {problem}")
    share_backbones({name: of_name[0] for name, of_name in systems.items()}, configurations)
    return systems


def share_backbones(
    systems: Mapping[str, StreamingSystem], configurations: Mapping[str, Config]
) -> None:
    """Let systems whose backbones have the same configuration use that of the first of them.

    A backbone that a latency knob sets is not shared.

    Args:
        systems: Systems by name, in the order in which they will be loaded.
        configurations: Their configurations.
    """
    owners: list[tuple[object, StreamingSystem]] = []
    for name, system in systems.items():
        if system.knob is not None and system.knob.attribute.startswith("backbone."):
            continue
        backbone = plain(configurations[name])["backbone"]
        owner = next((one for known, one in owners if known == backbone), None)
        if owner is None:
            owners.append((backbone, system))
        else:
            system.share_backbone(owner)


def at_latencies(cfg: Config) -> Sequence[StreamingSystem]:
    """Return a system at each value of ``latency``, without weights.

    Raises:
        ZooError: The system is wrong, ``latency`` has no value or one twice, or the weights of the
            system depend on its latency.
    """
    given = plain(cfg)["latency"]
    values = given if isinstance(given, list) else [given]
    if not values or len(set(map(str, values))) < len(values):
        raise ZooError(f"latency must have at least one value and none twice, not {given}.")
    if None in values and len(values) > 1:
        raise ZooError(f"latency must have numbers only, not {given}.")
    systems = [streaming_system(cfg, value) for value in values]
    knob = systems[0].knob
    if len(systems) > 1 and knob is not None:
        part = knob.attribute.partition(".")[0]
        if part in ("backbone", "synthesizer"):
            raise ZooError(
                f"The latency of system {systems[0].name!r} sets {knob.attribute}, which several "
                "latencies cannot share; write one value, or an entry of compare for each."
            )
    return systems


def load_systems(systems: Sequence[StreamingSystem], device: torch.device) -> None:
    """Load the weights that systems of several latencies share, and warm the systems up.

    Args:
        systems: The same system at several values of its latency knob.
        device: Device of the weights.
    """
    first, *others = systems
    first.configure_model()
    for other in others:
        other.share_weights(first)
    silence = torch.zeros(round(WARM_UP * SAMPLE_RATE))
    for system in systems:
        system.to(device).eval()
        warm_up(system, Source("warm-up", silence.split(system.chunk_samples)))


def _is_entry(entry: object) -> bool:
    return isinstance(entry, Sequence) and all(isinstance(item, str) for item in entry)


def _shared() -> list[str]:
    """Return the typed overrides of all systems."""
    return [item for item in overrides() if override_key(item).partition(".")[0] != "compare"]


def token(address: Address) -> str | None:
    """Return the token of a server: the one that is set, or a new one for other machines."""
    if address.token is not None:
        return address.token
    return None if address.is_local else secrets.token_urlsafe(16)


def talks(cfg: Config, systems: Mapping[str, Sequence[StreamingSystem]]) -> Sequence[Talk]:
    """Return the talks with audio in a source language of the systems.

    Args:
        cfg: Configuration.
        systems: Systems of the server.

    Raises:
        ZooError: The corpus cannot be read.
    """
    languages = {system.source_language for of_name in systems.values() for system in of_name}
    codes = {language.code for language in languages}
    corpus: Corpus = build(cfg.data)
    return [
        talk
        for talk in corpus.talks(cfg.split, limit=cfg.talks)
        if talk.audio is not None and (talk.source_language in codes or DETECTED in languages)
    ]


@contextmanager
def listen(address: Address, limits: Limits) -> Iterator[Listening]:
    """Open the port of a server, before its systems are loaded.

    Raises:
        ZooError: the port is in use, the address is none of this machine, or there are too few
            descriptors.
    """
    most = connection_limit(limits)
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        listening = socket.create_server((address.host, address.port), family=family)
    except OSError as error:
        raise ZooError(
            f"The server cannot listen at {address.host}, port {address.port}: "
            f"{error.strerror or error}."
        ) from error
    with Listening(listening, most=most) as limited:
        yield limited


def url(address: Address, listening: socket.socket, access: Access) -> str:
    """Return the address of the page."""
    scheme = "http" if address.certificate is None else "https"
    host = f"[{address.host}]" if ":" in address.host else address.host
    query = "" if access.token is None else f"?token={quote(access.token, safe='')}"
    return f"{scheme}://{host}:{listening.getsockname()[1]}/{query}"
