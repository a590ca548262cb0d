"""Address and key of a server: the address is part of the configuration, the key is not."""

import os
import re
from urllib.parse import urlsplit

import httpx

from zoo.errors import ZooError

KEY = re.compile(r"[!-~]+")  # printable ASCII without space
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_key(variable: str | None) -> str | None:
    """Return the key in an environment variable.

    Raises:
        ZooError: If the variable is not set, or its value cannot be sent as an HTTP header.
    """
    if variable is None:
        return None
    if not (key := os.environ.get(variable, "").strip()):
        raise ZooError(
            f"The environment variable {variable} is not set; backbone.api_key_variable names it."
        )
    if not KEY.fullmatch(key):
        raise ZooError(
            f"The key in the environment variable {variable} must be printable ASCII without white "
            "space inside; set the variable again."
        )
    return key


def check_variable(name: str | None) -> None:
    """Raise ZooError, without the name, unless a name can be that of an environment variable."""
    if name is not None and not VARIABLE.fullmatch(name):
        raise ZooError(
            "backbone.api_key_variable must be the name of an environment variable, of letters, "
            "digits and _; the key itself is not part of a configuration."
        )


def check_url(url: str | None) -> None:
    """Raise ZooError unless a URL is an HTTP address without credentials."""
    if url is None:
        return
    try:
        address = urlsplit(url)
        served = address.scheme in ("http", "https") and bool(httpx.URL(url).host)
        valid = served and (address.port or 1) > 0  # the port raises ValueError if it is no number
    except (ValueError, httpx.InvalidURL):
        valid = False
    if not valid:
        actual = "" if "@" in url or "?" in url else f", not {url!r}"  # no password is shown
        raise ZooError(f"backbone.url must be an address such as http://127.0.0.1:8000/v1{actual}.")
    if "@" in address.netloc or "?" in url or "#" in url:
        raise ZooError(
            "backbone.url must contain no password, no query and no #, for it is logged; put the "
            "key in an environment variable and name it as backbone.api_key_variable."
        )
