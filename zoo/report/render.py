"""Renders the templates in ``assets``, which escape all text but that marked as ``safe``."""

import json
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def render(template: str, **values: Any) -> str:
    """Return a rendered template.

    Args:
        template: name of a file in ``assets``.
        values: variables of the template.
    """
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    """Return the environment of the templates.

    Its function ``source`` returns a file of ``assets`` as it is: style sheets and scripts are no
    templates, and their braces have no meaning to Jinja.
    """
    loader = PackageLoader("zoo.report", "assets")
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["source"] = lambda name: loader.get_source(environment, name)[0]
    return environment


def json_block(data: object) -> str:
    """Return JSON for a script element; ``<``, ``>``, ``&``, U+2028 and U+2029 are escaped."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
