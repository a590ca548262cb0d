"""Address of a server, which is part of the configuration; its key is not."""

from urllib.parse import urlsplit

import httpx

from zoo.errors import ZooError


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
