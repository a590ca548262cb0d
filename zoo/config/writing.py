"""Keys and values as Hydra's overrides write them."""

import re
from typing import Any


def override_key(override: str) -> str:
    """Return the key of an override without Hydra's signs; ``policy@a.b=c`` has its package."""
    return override.lstrip("+~").partition("=")[0]


def override_value(value: Any) -> str:
    """Return a value of Python as an override writes it, such as ``null`` for None."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def quote_text(text: str) -> str:
    """Return a text as a quoted value of an override, which Hydra restores unchanged."""
    text = re.sub(r"(\\*)[$][{]", r"\1\1\\${", text)  # no link of OmegaConf
    text = re.sub(r"(\\*)'", r"\1\1\\'", text)
    text = re.sub(r"(\\+)$", r"\1\1", text)
    return f"'{text}'"
