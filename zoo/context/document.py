"""The beginning of a document in the prompt."""

from pathlib import Path

from zoo.context.base import ContextSource
from zoo.errors import check_numbers
from zoo.formats.documents import read_document
from zoo.types import Context


class Document(ContextSource):
    """The first words of a text or a PDF, such as the title and the abstract of a talk's paper.

    The baseline with context of IWSLT 2026 puts the abstract into the prompt of its recogniser.

    Args:
        path: Text file (UTF-8) or PDF. ``{talk}`` stands for the name of the talk.
        max_words: Number of words, divided by spaces, from the beginning of the document.

    Raises:
        ZooError: ``max_words`` is below 1.
    """

    def __init__(self, *, path: str, max_words: int = 300) -> None:
        super().__init__(path)
        check_numbers("A document", least=1, max_words=max_words)
        self.max_words = max_words

    def read(self, path: Path) -> Context:
        """Read the beginning of the document; see ``ContextSource``."""
        return Context(text=" ".join(read_document(path).split()[: self.max_words]))
