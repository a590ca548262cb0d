"""Keys and tokens: read from the environment, refused elsewhere, and replaced in shown texts."""

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from urllib.parse import SplitResult, quote, quote_plus, urlsplit

from zoo.base.errors import ZooError

MASK = "***"
VARIABLES = ("WANDB_API_KEY", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")  # the libraries read them
SHORTEST_LINE = 8  # shorter lines of a damaged key are common words rather than secrets
KEY = re.compile(r"[!-~]+")  # printable ASCII without space
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_key(variable: str | None, setting: str) -> str | None:
    """Return the key in an environment variable.

    Args:
        variable: Name of the variable. None: there is no key.
        setting: Key of the configuration that names the variable, for messages.

    Raises:
        ZooError: If the variable is not set, or its value cannot be sent as an HTTP header.
    """
    if variable is None:
        return None
    if not (key := os.environ.get(variable, "").strip()):
        raise ZooError(f"The environment variable {variable} is not set; {setting} names it.")
    if not KEY.fullmatch(key):
        raise ZooError(
            f"The key in the environment variable {variable} must be printable ASCII without white "
            "space inside; set the variable again."
        )
    return key


def check_variable(name: str | None, setting: str) -> None:
    """Raise ZooError, without the name, unless a name can be that of an environment variable.

    Args:
        name: The name. None: there is no key.
        setting: Key of the configuration that has the name, for messages.
    """
    if name is not None and not VARIABLE.fullmatch(name):
        raise ZooError(
            f"{setting} must be the name of an environment variable, of letters, digits and _; "
            "the key itself is not part of a configuration."
        )


def split_address(url: str, owner: str, *, schemes: Collection[str], example: str) -> SplitResult:
    """Return the parts of the address of a server, which a configuration may contain.

    Args:
        url: The address.
        owner: Configuration with the keys ``url`` and ``api_key_variable``, for messages.
        schemes: Schemes that an address may have, such as ``http``.
        example: A valid address, for messages.

    Raises:
        ZooError: If it is no address, or contains what may be secret; the address is not shown.
    """
    try:
        parts = urlsplit(url)
        valid = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
        (parts.hostname or "").encode("idna")
    except ValueError:  # the port is no number, a bracket is missing, or the host has a wrong form
        valid = False
    if not valid or any(sign in "@?# " or not sign.isprintable() for sign in url):
        raise ZooError(
            f"{owner}.url must be an address such as {example} without password, query and #, for "
            f"it is logged; put a key in an environment variable ({owner}.api_key_variable)."
        )
    return parts


def mask_secrets(
    text: str, *secrets: str | None, environment: Mapping[str, str] = os.environ
) -> str:
    """Replace secrets in a text by ``MASK``, also where they are quoted or escaped.

    Args:
        text: Text of any origin, such as the message of an exception of an HTTP library.
        secrets: Secrets beyond those of ``VARIABLES``; None: none.
        environment: Environment variables.
    """
    values = [*secrets, *(environment.get(name) for name in VARIABLES)]
    forms = {form for value in values if value for form in _forms(value) if form.strip()}
    for form in sorted(forms, key=len, reverse=True):  # a form may contain a shorter one
        text = text.replace(form, MASK)
    return text


def _forms(secret: str) -> Iterator[str]:
    """Yield the forms in which a text may contain a secret: whole, in one line, or one line."""
    lines = [line for line in secret.split() if len(line) >= SHORTEST_LINE]
    for value in (secret, secret.strip(), " ".join(secret.split()), *lines):
        yield value
        encoded = value.encode(errors="surrogateescape")
        yield from (repr(value)[1:-1], repr(encoded)[2:-1], json.dumps(value)[1:-1])
        yield from (quote(encoded), quote(encoded, safe=""), quote_plus(encoded))
