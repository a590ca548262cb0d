"""Glossaries: text files with a term and its translation per line."""

from pathlib import Path

from zoo.base.disk.files import check_regular
from zoo.base.errors import ZooError, shorten
from zoo.base.types import Term
from zoo.formats.text import read_text

GLOSSARIES = (".txt", ".tsv")  # suffixes
LARGEST = 100_000  # terms
LONGEST = 200  # characters of a term; a longer text is a sentence


def read_glossary(path: Path) -> list[Term]:
    """Read the terms of a glossary, each once, in the order of the file.

    A line has a source term, a tab and its translation, or one text for both. White space around
    texts is left out, and so are blank lines.

    Args:
        path: Text file in UTF-8.

    Raises:
        ZooError: The file is missing or cannot be read, has no terms, or has a line of another
            form.
    """
    check_regular(path)
    terms: dict[Term, None] = {}
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        texts = [" ".join(text.split()) for text in line.split("\t")]
        if len(texts) > 2 or not all(0 < len(text) <= LONGEST for text in texts):
            raise ZooError(
                f"Line {number} of glossary {path} has to be a term, or a source term, a tab and "
                f"its translation, each of at most {LONGEST} characters, not {shorten(line)!r}."
            )
        terms[Term(texts[0], texts[-1])] = None
    if not terms:
        raise ZooError(f"Glossary {path} has no terms; write one per line.")
    if len(terms) > LARGEST:
        raise ZooError(f"Glossary {path} has {len(terms)} terms; at most {LARGEST} are read.")
    return list(terms)
