"""Glossaries from documents: ``python -m zoo entities PAPERS GLOSSARIES --model NAME``.

The baseline with context of IWSLT 2026 has a language model list the names and terms of a talk's
paper several times and keeps those that at least half of its answers have. ``context=glossary``
reads the results.
"""

import argparse
import logging
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from zoo.apps.prepare.translators.causal_lm import CausalLM
from zoo.base.disk.files import check_can_be_written, write_text
from zoo.base.errors import ZooError, check_numbers
from zoo.base.languages import language
from zoo.base.machine.commands import named_path, run_script
from zoo.base.machine.hints import program
from zoo.base.progress import show_progress
from zoo.formats.documents import DOCUMENTS, read_document

logger = logging.getLogger(__name__)

PROMPT = (
    "Below are the title, the authors and the beginning of a paper. List the names of people, "
    "organisations, places, models, data sets, methods and metrics, and the technical terms that a "
    "speech recogniser may misspell. Write each as the paper spells it, one per line, and nothing "
    "else.\n\n{transcript}"
)
LONGEST_ENTITY = 60  # characters; longer lines of an answer are sentences
_MARK = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")  # of a list


class EntityLister(CausalLM):
    """A causal language model that lists the entities of texts, with sampled answers.

    Args:
        name: hub id or folder of a model that follows instructions.
        samples: number of answers per text.
        least: number of answers that must have an entity.
        temperature: of the sampling.
        dtype: dtype of the network.

    Raises:
        ZooError: a number is out of range.
    """

    owner = "entities"

    def __init__(
        self,
        *,
        name: str,
        samples: int = 16,
        least: int = 8,
        temperature: float = 0.7,
        dtype: str = "float32",
    ) -> None:
        super().__init__(name=name, prompt=PROMPT, max_tokens=512, batch_size=8, dtype=dtype)
        check_numbers("A list of entities", least=1, samples=samples)
        check_numbers("A list of entities", least=1, most=samples, least_answers=least)
        check_numbers("A list of entities", above=0, temperature=temperature)
        self.samples = samples
        self.least = least
        self.temperature = temperature

    def load(self, device: torch.device | None = None) -> None:
        """Load the network; its answers are sampled."""
        super().load(device)
        self._network.generation_config.do_sample = True
        self._network.generation_config.temperature = self.temperature

    def entities(self, text: str) -> list[str]:
        """Return the entities of a text, in the order of their first place in it.

        An entity counts if the text has it: a model may invent names.
        """
        english = language("en")  # the prompt names no language
        answers = self.translate([text] * self.samples, source=english, target=english)
        counts = Counter(
            entity for answer in answers for entity in {*listed((answer or "").split("\n"))}
        )
        lower = " ".join(text.split()).lower()
        agreed = [
            entity
            for entity, count in counts.items()
            if count >= self.least and entity.lower() in lower
        ]
        return sorted(agreed, key=lambda entity: (lower.index(entity.lower()), entity))

    def _text(self, ids: Sequence[int]) -> str | None:
        """Return an answer with its line breaks; an answer that is cut off lacks its last line."""
        ends = [place for place, one in enumerate(ids) if one in self._ends]
        text = self._tokenizer.decode(ids[: ends[0]] if ends else ids, skip_special_tokens=True)
        return str(text) if ends else str(text).rpartition("\n")[0]


def listed(lines: Iterable[str]) -> list[str]:
    """Return the entities of the lines of an answer, without the marks of a list."""
    entities = (" ".join(_MARK.sub("", line).split()).strip(" .,;:\"'") for line in lines)
    return [one for one in entities if 1 < len(one) <= LONGEST_ENTITY]


def write_glossaries(
    documents: Path, folder: Path, lister: EntityLister, *, max_words: int = 400
) -> list[Path]:
    """Write a glossary of each document, ``<folder>/<name of the document>.txt``.

    Documents that have a glossary are left out, so that an interrupted call can be repeated.

    Args:
        documents: a PDF or text file, or a folder of them, named after the talks.
        folder: folder of the glossaries.
        lister: lists the entities.
        max_words: number of words from the beginning of a document.

    Returns:
        The paths of the glossaries that were written: of a document without entities there is none.

    Raises:
        ZooError: there is no document, one cannot be read, or the folder is not writable.
    """
    check_numbers("A document", least=1, max_words=max_words)
    check_can_be_written(folder, "folder")
    if (documents if documents.is_dir() else documents.parent).resolve() == folder.resolve():
        raise ZooError(f"{folder} has the documents; name another folder for the glossaries.")
    paths = [documents]
    if documents.is_dir():
        paths = sorted(path for path in documents.iterdir() if path.suffix.lower() in DOCUMENTS)
    if not paths:
        raise ZooError(f"{documents} has no file of: {', '.join(DOCUMENTS)}.")
    names = [path.stem for path in paths]
    if doubled := [name for name, count in Counter(names).items() if count > 1]:
        raise ZooError(f"{documents} has several documents of the name {doubled[0]!r}; keep one.")
    texts = {
        folder / f"{path.stem}.txt": " ".join(read_document(path).split()[:max_words])
        for path in paths
        if not (folder / f"{path.stem}.txt").exists()
    }
    folder.mkdir(parents=True, exist_ok=True)
    lister.check()
    lister.load()
    written = []
    for path, text in show_progress(list(texts.items()), total=len(texts), title="Documents"):
        entities = lister.entities(text)
        if not entities:
            logger.warning("The model lists no entities for %s.", path.stem)
            continue
        write_text(path, "".join(f"{entity}\n" for entity in entities))
        written.append(path)
    return written


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the glossaries of documents.

    Args:
        arguments: command line without the program's name; None: ``sys.argv``.
    """
    parser = argparse.ArgumentParser(
        prog=program("entities"),
        description="Write a glossary of the names and terms of each document.",
    )
    parser.add_argument(
        "documents", type=named_path, help="a PDF or text file, or a folder of them"
    )
    parser.add_argument("folder", type=named_path, help="folder of the glossaries")
    parser.add_argument("--model", required=True, help="hub id or folder of a language model")
    parser.add_argument("--samples", type=int, default=16, help="answers per document (16)")
    parser.add_argument("--least", type=int, default=8, help="answers that must have an entity (8)")
    parser.add_argument("--max-words", type=int, default=400, help="of a document (400)")
    parser.add_argument("--dtype", default="float32", help="of the network (float32)")
    parser.add_argument("--seed", type=int, default=0, help="of the answers (0)")
    given = parser.parse_args(arguments)

    def write() -> None:
        check_numbers("The command", least=0, seed=given.seed)
        torch.manual_seed(given.seed)
        lister = EntityLister(
            name=given.model, samples=given.samples, least=given.least, dtype=given.dtype
        )
        for path in write_glossaries(
            given.documents, given.folder, lister, max_words=given.max_words
        ):
            print(path)

    run_script(write, given.folder)


if __name__ == "__main__":
    main()
