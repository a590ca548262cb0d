"""Terms of a glossary in the prompt."""

from pathlib import Path

from zoo.base.errors import ZooError, check_numbers
from zoo.base.types import Context
from zoo.formats.glossary import GLOSSARIES, read_glossary
from zoo.systems.context.base import ContextSource


class Glossary(ContextSource):
    """The terms of a text file, all of them in each prompt (the upper bound of RASST's retrieval).

    Args:
        path: Text file (UTF-8) with a term per line: the source term, a tab and its translation,
            or one text for both, as of names. Or a folder with ``<talk>.txt`` or ``<talk>.tsv``.
        max_terms: Most terms of a file; a prompt takes no glossary of any size.

    Raises:
        ZooError: ``max_terms`` is below 1.
    """

    suffixes = GLOSSARIES

    def __init__(self, *, path: str, max_terms: int = 100) -> None:
        super().__init__(path)
        check_numbers("A glossary", least=1, max_terms=max_terms)
        self.max_terms = max_terms

    def read(self, path: Path) -> Context:
        """Read the terms; see ``ContextSource``."""
        terms = read_glossary(path)
        if len(terms) > self.max_terms:
            raise ZooError(
                f"Glossary {path} has {len(terms)} terms, but prompts take "
                f"context.max_terms={self.max_terms}; shorten it, or raise the limit."
            )
        return Context(terms=tuple(terms))
