"""Terms that resemble the newest transcript."""

from pathlib import Path

import pytest
import torch

from tests.contract.scripted import Scripted, source
from tests.contract.test_contract import build
from zoo.base.errors import ZooError
from zoo.base.types import NO_CONTEXT, Context, Hypothesis, Request, Task, Term
from zoo.policies.local_agreement import LocalAgreement
from zoo.streaming.session import Session
from zoo.streaming.simulate import simulate
from zoo.streaming.text import TextStream
from zoo.systems.context.glossary import Glossary
from zoo.systems.context.retrieved import Retrieved, TermIndex, passages

NAMES = ("Somdam", "Drergradi", "Binurna", "load balancing", "Hezos")


def glossary(folder: Path, *lines: str) -> str:
    path = folder / "terms.txt"
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def retrieved(context: Retrieved, transcript: str) -> list[str]:
    """Return the source terms that a transcript retrieves."""
    session = Session(
        talk="talk",
        source_language=None,  # type: ignore[arg-type]
        target_language=None,  # type: ignore[arg-type]
        frame_samples=1,
        text_stream=TextStream(decode=str, separator=" "),
    )
    assert context.context("talk") == NO_CONTEXT
    steps = context.retrieve(session)
    assert next(steps) == Request(task=Task.TRANSCRIPTION)
    empty = torch.zeros(0, dtype=torch.long)
    with pytest.raises(StopIteration) as stop:
        steps.send(Hypothesis(empty, empty.bool(), transcript=transcript))
    return [term.source for term in stop.value.value.terms]


@pytest.mark.parametrize(
    ("transcript", "terms"),
    [
        ("Everyone says Sumdam steals the cup.", ["Somdam"]),
        ("some dam and Drare Grady", ["Somdam", "Drergradi"]),
        ("loadbalancing, Hezos!", ["load balancing", "Hezos"]),
        ("the load is on balance", []),
        ("", []),
        ("Binurna " + "word " * 30, []),
    ],
)
def test_terms_are_found_by_their_letters(
    tmp_path: Path, transcript: str, terms: list[str]
) -> None:
    assert retrieved(Retrieved(path=glossary(tmp_path, *NAMES)), transcript) == terms


def test_the_most_similar_terms_are_taken_in_their_order(tmp_path: Path) -> None:
    path = glossary(tmp_path, "Annabel", "Annabella", "Hannabel", "Hezos")
    assert retrieved(Retrieved(path=path, most=2), "Hannabel") == ["Annabel", "Hannabel"]
    assert len(retrieved(Retrieved(path=path, threshold=0.0), "Hannabel")) == 4
    assert retrieved(Retrieved(path=path, threshold=1.0), "Hannabel") == ["Hannabel"]


def test_passages_have_all_lengths() -> None:
    assert list(passages(["a", "b", "c"], longest=2)) == [
        ("a",), ("b",), ("c",), ("a", "b"), ("b", "c"),
    ]  # fmt: skip
    index = TermIndex([Term("a b", "x"), Term("c", "y")], most=10, threshold=0.5)
    assert index.longest == 2
    assert index.similar(("ab",)) == [(0, 1.0)]
    assert index.similar(("a", "b")) == [(0, 1.0)]


class Recording(Scripted):
    """Records the context at each request, and when it changes."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[Task, int]] = []
        self.changes: list[Context] = []

    def answer(self, session, request, needs):  # type: ignore[no-untyped-def]
        self.seen.append((request.task, len(session.context.terms)))
        return super().answer(session, request, needs)

    def change_context(self, session: Session) -> None:
        self.changes.append(session.context)


def test_the_context_changes_before_the_decision(tmp_path: Path) -> None:
    backbone = Recording()
    system = build(
        backbone=backbone,
        policy=LocalAgreement(),
        context=Retrieved(path=glossary(tmp_path, "111\televen", "222\ttwelve"), threshold=1.0),
    )
    words = [5, 111, 6, 222, 7]
    [talk] = simulate(system, [source(words, system.chunk_samples)], batch_size=1)
    plain = build(backbone=Recording(), policy=LocalAgreement())
    [without] = simulate(plain, [source(words, plain.chunk_samples)], batch_size=1)
    assert talk.text == without.text
    assert [[term.target for term in one.terms] for one in backbone.changes] == [
        ["eleven"],
        ["eleven", "twelve"],
    ]
    assert {task for task, _ in backbone.seen} == {Task.TRANSCRIPTION, Task.TRANSLATION}
    translated = [terms for task, terms in backbone.seen if task is Task.TRANSLATION]
    assert translated == sorted(translated)
    assert {*translated} == {0, 1, 2}


def test_a_constant_context_is_there_from_the_start(tmp_path: Path) -> None:
    backbone = Recording()
    system = build(
        backbone=backbone,
        policy=LocalAgreement(),
        context=Glossary(path=glossary(tmp_path, "111\televen")),
    )
    list(simulate(system, [source([5, 6], system.chunk_samples)], batch_size=1))
    assert {*backbone.seen} == {(Task.TRANSLATION, 1)}
    assert backbone.changes == []


@pytest.mark.parametrize("options", [{"most": 0}, {"threshold": 1.1}, {"window_words": 0}])
def test_numbers_are_checked(options: dict[str, float]) -> None:
    with pytest.raises(ZooError, match=next(iter(options))):
        Retrieved(path="terms.txt", **options)  # type: ignore[arg-type]
