"""The beginning or the end of a document in the prompt."""

from pathlib import Path
from typing import Literal, get_args

from zoo.base.errors import check_choice, check_numbers
from zoo.base.types import Context
from zoo.formats.documents import DOCUMENTS, read_document
from zoo.systems.context.base import ContextSource

Part = Literal["beginning", "end"]


class Document(ContextSource):
    """Words of a text or a PDF: of a talk's paper, or of the talk before it.

    The baseline with context of IWSLT 2026 puts the abstract into the prompt of its recogniser.

    Args:
        path: Text file (UTF-8) or PDF, or a folder with ``<talk>.txt`` or ``<talk>.pdf``.
        part: ``beginning``, where a paper has its title and abstract, or ``end``, which the
            translation of an earlier talk leads to.
        max_words: Number of words, divided by spaces, of this part of the document.

    Raises:
        ZooError: ``part`` is unknown, or ``max_words`` is below 1.
    """

    suffixes = DOCUMENTS

    def __init__(self, *, path: str, part: Part = "beginning", max_words: int = 300) -> None:
        super().__init__(path)
        check_choice("part of a document", part, get_args(Part))
        check_numbers("A document", least=1, max_words=max_words)
        self.part = part
        self.max_words = max_words

    def read(self, path: Path) -> Context:
        """Read a part of the document; see ``ContextSource``."""
        words = read_document(path).split()
        is_beginning = self.part == "beginning"
        chosen = words[: self.max_words] if is_beginning else words[-self.max_words :]
        return Context(text=" ".join(chosen))
