"""Context of talks: glossaries and documents, read from files."""

from pathlib import Path

import pytest

from tests.fixtures.documents import pdf
from zoo.base.errors import ZooError
from zoo.base.types import Context, Term
from zoo.formats import documents
from zoo.systems.context.base import ContextSource
from zoo.systems.context.document import Document
from zoo.systems.context.glossary import Glossary


def write(path: Path, content: str | bytes) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def test_a_glossary_has_terms_and_their_translations_once(tmp_path: Path) -> None:
    path = write(tmp_path / "terms.txt", "\ufeffIsadora\n\nthe  house\tdas Haus\r\nIsadora\n")
    terms = (Term("Isadora", "Isadora"), Term("the house", "das Haus"))
    assert Glossary(path=path).context("any talk") == Context(terms=terms)


def test_each_talk_may_have_a_file_of_its_own(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "Anna")
    write(tmp_path / "b.txt", "Bert")
    write(tmp_path / "c.pdf", "no glossary")
    source = Glossary(path=str(tmp_path))
    assert [source.context(talk).terms[0].source for talk in "ab"] == ["Anna", "Bert"]
    with pytest.raises(ZooError, match=r"no file of talk 'c': c\.txt or c\.tsv"):
        source.context("c")
    (tmp_path / "inner").mkdir()
    with pytest.raises(ZooError, match="no file of talk"):
        Glossary(path=str(tmp_path / "inner")).context("../a")


def test_a_document_gives_its_first_words(tmp_path: Path) -> None:
    path = write(tmp_path / "paper.txt", "A title\n\nand  an abstract")
    assert Document(path=path, max_words=3).context("talk") == Context(text="A title and")
    last = Document(path=path, max_words=2, part="end")
    assert last.context("talk") == Context(text="an abstract")


def test_a_pdf_gives_the_text_of_its_pages(tmp_path: Path) -> None:
    path = write(tmp_path / "paper.pdf", pdf("A title of a paper", "The second page"))
    assert Document(path=path).context("").text == "A title of a paper The second page"


@pytest.mark.parametrize(
    ("kind", "name", "content", "message"),
    [
        (Glossary, "terms.txt", "\n \n", "no terms"),
        (Glossary, "terms.txt", "a\tb\tc", "Line 1 of glossary .* a source term, a tab"),
        (Glossary, "terms.txt", "a " * 150, "each of at most 200 characters, not 'a a a"),
        (Glossary, "terms.txt", "a\n\tb", "Line 2 of glossary"),
        (Glossary, "terms.txt", b"\xff\xfe", "not a text file in UTF-8"),
        (Glossary, "terms.txt", "\n".join(map(str, range(101))), "101 terms, but prompts take"),
        (Document, "paper.txt", " \n", "has no text"),
        (Document, "paper.pdf", pdf(""), "has no text; a scanned PDF"),
        (Document, "paper.pdf", b"%PDF-1.4 broken", "not read as a PDF"),
        (Document, "paper.pdf", b"", "not read as a PDF"),
    ],
)
def test_files_that_are_none_are_refused(
    tmp_path: Path, kind: type[ContextSource], name: str, content: str | bytes, message: str
) -> None:
    source = kind(path=write(tmp_path / name, content))
    with pytest.raises(ZooError, match=message):
        source.context("talk")


@pytest.mark.parametrize("name", ["paper.pdf", "terms.txt"])
def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path, name: str) -> None:
    kind = Document if name.endswith("pdf") else Glossary
    with pytest.raises(ZooError, match="no file"):
        kind(path=str(tmp_path / name)).context("talk")
    (tmp_path / name).mkdir()
    with pytest.raises(ZooError, match="no file of talk 'talk'"):
        kind(path=str(tmp_path / name)).context("talk")


def test_sizes_are_checked() -> None:
    with pytest.raises(ZooError, match="max_terms"):
        Glossary(path="terms.txt", max_terms=0)
    with pytest.raises(ZooError, match="choose one of: beginning, end"):
        Document(path="paper.pdf", part="middle")  # type: ignore[arg-type]
    with pytest.raises(ZooError, match="max_words"):
        Document(path="paper.pdf", max_words=0)


def test_pages_that_draw_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many pages of a small file can be one page of millions of operators."""
    path = Path(write(tmp_path / "paper.pdf", pdf("A title of a paper", "The second page")))
    monkeypatch.setattr(documents, "MOST_OPERATORS", 10)
    assert "second" in documents.read_document(path)
    monkeypatch.setattr(documents, "MOST_OPERATORS", 6)
    with pytest.raises(ZooError, match="more than 6 operators"):
        documents.read_document(path)
