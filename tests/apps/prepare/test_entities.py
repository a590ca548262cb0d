"""Glossaries from documents: what an entity is, and what a folder of glossaries has."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.apps.prepare.test_prefixes import model  # noqa: F401 (a fixture)
from zoo.apps.prepare.entities import EntityLister, listed, main, write_glossaries
from zoo.base.errors import ZooError
from zoo.formats.glossary import read_glossary

PAPER = "SimulTrans: Reading  and writing. Ada Byron, Turing Lab. We train BERT on MuST-C."


class Scripted(EntityLister):
    """Gives answers that a test wrote, in turn."""

    def __init__(self, *answers: str, least: int = 1) -> None:
        super().__init__(name="none", samples=len(answers), least=least)
        self.answers = answers
        self.asked: list[str] = []

    def check(self) -> None:
        """Nothing can be missing."""

    def load(self, device: object = None) -> None:
        """There are no weights."""

    def translate(self, texts: Sequence[str], **_: object) -> list[str | None]:
        self.asked += texts
        return [*self.answers]


def test_entities_are_those_of_enough_answers_in_the_order_of_the_text() -> None:
    lister = Scripted(
        "- MuST-C\n- Ada Byron\n- Alan Turing", "1. BERT\n2. must-c\nAda Byron.", "Ada Byron",
        least=2,
    )  # fmt: skip
    assert lister.entities(PAPER) == ["Ada Byron"]
    lister.least = 1
    assert lister.entities(PAPER) == ["Ada Byron", "BERT", "MuST-C", "must-c"]  # no Alan Turing


def test_an_answer_is_a_list() -> None:
    answer = ["Here are the terms:", "* BERT,", "  2) Ada  Byron ", "", "x", "3.5 model", "w" * 70]
    assert listed(answer) == ["Here are the terms", "BERT", "Ada Byron", "3.5 model"]


def test_each_document_gets_a_glossary_once(tmp_path: Path) -> None:
    papers, folder = tmp_path / "papers", tmp_path / "glossaries"
    papers.mkdir()
    for name in ("a", "b"):
        (papers / f"{name}.txt").write_text(PAPER)
    (papers / "notes.md").write_text("no document")
    lister = Scripted("BERT\nAda Byron")
    assert [path.name for path in write_glossaries(papers, folder, lister)] == ["a.txt", "b.txt"]
    terms = read_glossary(folder / "b.txt")
    assert [term.target for term in terms] == ["Ada Byron", "BERT"]
    (folder / "a.txt").unlink()
    again = Scripted("Reading")
    assert write_glossaries(papers, folder, again, max_words=3) == [folder / "a.txt"]
    assert again.asked == ["SimulTrans: Reading and"]


def test_refusals(tmp_path: Path) -> None:
    (tmp_path / "papers").mkdir()
    with pytest.raises(ZooError, match=r"no file of: \.txt, \.pdf"):
        write_glossaries(tmp_path / "papers", tmp_path / "out", Scripted(""))
    (tmp_path / "papers" / "a.txt").write_text(PAPER)
    assert write_glossaries(tmp_path / "papers", tmp_path / "out", Scripted("Alan Turing")) == []
    assert [*(tmp_path / "out").iterdir()] == []
    (tmp_path / "papers" / "a.PDF").write_text(PAPER)
    with pytest.raises(ZooError, match="several documents of the name 'a'"):
        write_glossaries(tmp_path / "papers", tmp_path / "out", Scripted(""))
    with pytest.raises(ZooError, match="no file"):
        write_glossaries(tmp_path / "none.pdf", tmp_path / "out", Scripted(""))
    (tmp_path / "papers" / "a.PDF").unlink()
    for documents in (tmp_path / "papers", tmp_path / "papers" / "a.txt"):
        with pytest.raises(ZooError, match="has the documents; name another folder"):
            write_glossaries(documents, tmp_path / "papers" / ".", Scripted(""))
    for folder in (tmp_path / "papers" / "a.txt", Path("/proc/simulzoo"), Path("a\0b")):
        with pytest.raises(ZooError, match=r"folder=.* (is not a folder|cannot be|is no path)"):
            write_glossaries(tmp_path / "papers", folder, Scripted(""))
    with pytest.raises(ZooError, match="least_answers"):
        EntityLister(name="model", samples=2, least=3)


def test_answers_are_sampled(model: Path) -> None:  # noqa: F811
    """The network of one letter per letter answers X to d, which no text has."""
    lister = EntityLister(name=str(model), samples=2, least=1)
    lister.prompt = "{transcript}"
    lister.load()
    settings = lister._network.generation_config
    assert (settings.do_sample, settings.temperature) == (True, 0.7)
    assert lister.entities("bad") == []


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--seed", "-1"], "The command needs seed of at least 0, not -1."),
        (["--seed", str(2**70)], "The command needs seed of at most 9.22337203685478e+18, not"),
        (["--samples", "1000000000"], "A list of entities needs samples of at most 1000, not"),
    ],
)
def test_a_wrong_option_is_one_sentence(
    options: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_text(PAPER)
    given = [str(tmp_path / "a.txt"), str(tmp_path / "out"), "--model", "none", *options]
    with pytest.raises(SystemExit) as left:
        main(given)
    assert left.value.code == 2
    assert capsys.readouterr().err.startswith(f"error: {sentence}")
