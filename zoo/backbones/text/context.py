"""Strings around the context of a talk in the prompt of a language model."""

import re
from collections.abc import Collection
from dataclasses import dataclass

from zoo.backbones.text.prompt import fill_fields
from zoo.base.errors import ZooError
from zoo.base.types import Context

FIELDS = {"document": ("text",), "terms": ("terms",), "term": ("source", "target")}


@dataclass(frozen=True, slots=True)
class ContextStrings:
    """Strings of a template around a text and terms; a prompt without context has none of them.

    The terms have the form of RASST (arXiv:2601.22777), whose models are trained with it.

    Attributes:
        document: String with {text}, the beginning of a document.
        terms: String with {terms}, one term per line.
        term: A term; may contain {source} and {target}.
    """

    document: str = "\n\nContext: {text}"
    terms: str = "\n\nterm_map:\n{terms}"
    term: str = "{source}={target}"

    def check_context(self) -> None:
        """Check the strings.

        Raises:
            ZooError: A string has other fields in braces than its own, or lacks its only one.
        """
        for name, fields in FIELDS.items():
            string = getattr(self, name)
            filled = fill_fields(string, **{field: f"<{field}>" for field in fields})
            needed = name != "term"
            if filled is None or (needed and f"<{fields[0]}>" not in filled):
                listed = " and ".join(f"{{{field}}}" for field in fields)
                verb = "must have" if needed else "may have"
                raise ZooError(
                    f"backbone.template.{name} {verb} {listed} in it and no other braces, not "
                    f"{string!r}."
                )

    def context(self, context: Context, reserved: Collection[str] = ()) -> str:
        """Return the part of a prompt that contains the context; empty without context.

        Args:
            context: Text and terms.
            reserved: Special tokens, which are left out of text and terms: a document must not end
                the user's turn.
        """
        result = ""
        if context.text:
            result += self.document.format(text=without(context.text, reserved))
        if context.terms:
            lines = [
                self.term.format(
                    source=without(term.source, reserved), target=without(term.target, reserved)
                )
                for term in context.terms
            ]
            result += self.terms.format(terms="\n".join(lines))
        return result


def without(text: str, reserved: Collection[str]) -> str:
    """Return a text without some strings, nor those that its rest would then make."""
    if not reserved:
        return text
    pattern = re.compile("|".join(map(re.escape, reserved)))
    while pattern.search(text):
        text = pattern.sub(" ", text)
    return text
