"""Limits and address of a live server."""

import ipaddress
import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from zoo.base.errors import ZooError, check_numbers
from zoo.base.types import Seconds

_TOKEN = re.compile("[!-~]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What one server and one stream may take.

    Attributes:
        streams: Most streams at the same time; a further client is refused with a sentence.
        connections: Most open connections, of which each stream is one. There are fewer if the
            system allows fewer open files.
        streams_per_minute: Most streams that the clients of one address begin within a minute.
        batch_size: Most streams that one batch advances.
        backlog_seconds: Seconds of audio of a stream that may wait. No more is read from a client
            that sends faster than the machine translates; nothing is skipped.
        idle_seconds: Longest time without a message of a client.
        stream_seconds: Longest audio of a stream.
        message_bytes: Largest message.
        unread_messages: Most messages that a client may leave unread.
        unread_bytes: Most bytes of them.
    """

    streams: int = 16
    connections: int = 512
    streams_per_minute: int = 60
    batch_size: int = 8
    backlog_seconds: Seconds = 30.0
    idle_seconds: Seconds = 60.0
    stream_seconds: Seconds = 4 * 3600.0
    message_bytes: int = 1 << 20
    unread_messages: int = 1000
    unread_bytes: int = 1 << 23

    def __post_init__(self) -> None:
        """Raise ZooError for limits below 1, and for a message above 64 MiB."""
        check_numbers("limits", least=1, streams=self.streams, batch_size=self.batch_size)
        check_numbers("limits", least=2, connections=self.connections)
        check_numbers("limits", least=1, streams_per_minute=self.streams_per_minute)
        check_numbers("limits", least=1, backlog_seconds=self.backlog_seconds)
        check_numbers("limits", least=1, idle_seconds=self.idle_seconds)
        check_numbers("limits", least=1, stream_seconds=self.stream_seconds)
        check_numbers("limits", least=1024, most=1 << 26, message_bytes=self.message_bytes)
        check_numbers("limits", least=1, unread_messages=self.unread_messages)
        check_numbers("limits", least=1024, unread_bytes=self.unread_bytes)


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """Where a server listens.

    Attributes:
        host: Name or number of an address of this machine.
        port: Its port; 0: a free one.
        certificate: File of a TLS certificate (PEM); None: no TLS.
        key: File of the key of the certificate.
        token: Secret that requests must have; None: the server decides.
    """

    host: str
    port: int
    certificate: str | None = None
    key: str | None = None
    token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Raise ZooError for an impossible port or token, and for one file without the other."""
        if not self.host:
            raise ZooError(f"host must be an address such as 127.0.0.1, not {self.host!r}.")
        check_numbers("The server", least=0, most=65535, port=self.port)
        if self.token is not None and not _TOKEN.fullmatch(self.token):
            raise ZooError(
                "token must have at least one letter, digit or sign of ASCII and no blank; "
                "leave it out for a new one at every start."
            )
        if (self.certificate is None) != (self.key is None):
            raise ZooError("TLS needs both certificate and certificate_key, the files of a pair.")
        for name, path in (("certificate", self.certificate), ("certificate_key", self.key)):
            if path is not None and not Path(path).is_file():
                raise ZooError(f"There is no file {path} ({name}).")

    @property
    def is_local(self) -> bool:
        """Whether only programs of this machine reach the server."""
        return is_loopback(self.host)

    def tls(self) -> ssl.SSLContext | None:
        """Load certificate and key; None: there is no TLS.

        Raises:
            ZooError: The files are no pair, or the key is encrypted.
        """
        if self.certificate is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.certificate, self.key, _refuse_password)
        except OSError as error:
            raise ZooError(
                f"{self.certificate} (certificate) and {self.key} (certificate_key) are no pair of "
                f"PEM files: {error.strerror or error}."
            ) from error
        return context


def is_loopback(host: str) -> bool:
    """Return whether a name or number of a host is this machine's for itself.

    Args:
        host: Without a port.
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _refuse_password() -> NoReturn:
    raise ZooError("The key of the certificate is encrypted (certificate_key); decrypt it first.")
