"""Keys and tokens are replaced in texts of other libraries before the zoo shows these texts."""

import json
import os
from collections.abc import Iterator, Mapping
from urllib.parse import quote, quote_plus

MASK = "***"
VARIABLES = ("WANDB_API_KEY", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")  # the libraries read them
SHORTEST_LINE = 8  # shorter lines of a damaged key are common words rather than secrets


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
