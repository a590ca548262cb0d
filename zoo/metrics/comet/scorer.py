"""Runs ``score.py`` in the environment of unbabel-comet and keeps its scores in a cache."""

import hashlib
import json
import logging
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from zoo.base.disk.files import append_line
from zoo.base.errors import ZooError

SCRIPT = Path(__file__).with_name("score.py")
ENVIRONMENT = Path(".venv-comet") / "bin" / "python"
REPOSITORY = Path(__file__).resolve().parents[3]  # without a meaning for an installed package
# Names of the scores of models that papers report; other models are named by their last part.
SCORES = {
    "Unbabel/wmt22-comet-da": "COMET",
    "Unbabel/XCOMET-XL": "XCOMET_XL",
    "Unbabel/XCOMET-XXL": "XCOMET_XXL",
    "Unbabel/wmt22-cometkiwi-da": "COMETKiwi",
}

logger = logging.getLogger(__name__)

Record = dict[str, Any]
Progress = Callable[[Iterable[Record], int], Iterable[Record]]


@dataclass(frozen=True, slots=True)
class Text:
    """A translation to score.

    Attributes:
        source: Source text.
        hypothesis: Translation.
        reference: Reference translation.
    """

    source: str
    hypothesis: str
    reference: str


@dataclass(frozen=True, slots=True)
class CometModel:
    """A COMET model whose files are on this machine.

    Attributes:
        name: Folder or name of the hub, as the user wrote it.
        score: Name of its score.
        folder: Folder of the model.
        encoder: Folder of its encoder's configuration and tokenizer.
        reference: Whether the model reads references; CometKiwi does not.
        fingerprint: Hash of all files and versions on which its scores depend.
        version: Version of unbabel-comet.
    """

    name: str
    score: str
    folder: str
    encoder: str
    reference: bool
    fingerprint: str
    version: str

    def record(self, text: Text) -> Record:
        """Return the line of a text for ``score.py``."""
        line = {"folder": self.folder, "encoder": self.encoder}
        line |= {"src": text.source, "mt": text.hypothesis}
        return line | ({"ref": text.reference} if self.reference else {})

    def key(self, text: Text) -> str:
        """Return the key of a text in the cache."""
        content = [text.source, text.hypothesis, text.reference if self.reference else None]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def score_name(model: str) -> str:
    """Return the name of the score of a model, such as ``COMET`` or ``COMET_my_metric``."""
    place = model.partition("@")[0] if not Path(model).is_dir() else model
    return SCORES.get(model) or "COMET_" + re.sub(r"\W+", "_", Path(place).resolve().name)


class Comet:
    """COMET models, ready to score.

    All models run in one process per call, and on the GPU if there is one.

    Args:
        models: The models.
        python: Python of the environment of unbabel-comet.
        cache: Folder of the scores of earlier calls.
    """

    def __init__(self, models: Sequence[CometModel], *, python: Path, cache: Path) -> None:
        self.models = models
        self._python = python
        self._cache = cache

    @classmethod
    def available(cls, names: Sequence[str], *, python: str | None, cache: Path) -> "Comet":
        """Find the environment and all files of the models; no weights are read.

        A model of the hub that is not in the local cache is downloaded if there is a network and
        ``HF_HUB_OFFLINE`` does not forbid it.

        Args:
            names: Folders and names of the hub.
            python: Python of the environment of unbabel-comet; None: that of ``make comet``, in
                the working directory or the repository.
            cache: Folder of the scores of earlier calls.

        Raises:
            ZooError: The environment or a file of a model is missing, or two models have one name.
        """
        scores = [score_name(name) for name in names]
        for score in scores:
            if scores.count(score) > 1:
                raise ZooError(f"Two COMET models have one score name ({score}); rename a folder.")
        interpreter = environment(python)
        found: list[CometModel] = []
        for answer in _run(interpreter, ["check", *names], []):
            if "status" in answer:
                logger.info("COMET: %s", answer["status"])
            elif "error" in answer:
                raise ZooError(f"COMET model {answer['model']}: {answer['error']}")
            else:
                name = answer.pop("model")
                found.append(CometModel(name=name, score=score_name(name), **answer))
        if len(found) != len(names):
            raise ZooError(f"The COMET environment found {len(found)} of {len(names)} models.")
        return cls(found, python=interpreter, cache=cache)

    def score(
        self, texts: Sequence[Text], progress: Progress = lambda items, total: items
    ) -> dict[str, list[float]]:
        """Score texts with all models.

        Scores are in the cache as soon as they are computed.

        Args:
            texts: The texts; equal ones are scored once.
            progress: Shows the progress: it receives the scored lines, one after the other, and
                their number, and returns the lines.

        Returns:
            One score per text, by the name of the score. The scale is that of the library.

        Raises:
            ZooError: The process stops before all texts are scored.
        """
        known = {model.score: read_scores(self._file(model)) for model in self.models}
        missing = {
            (model.score, model.key(text)): (model, text)
            for model in self.models
            for text in texts
            if model.key(text) not in known[model.score]
        }
        work = list(missing.values())
        if work:
            lines = [model.record(text) for model, text in work]
            answers = _run(self._python, ["score"], lines)
            for answer in progress(answers, len(work)):
                model, text = work[answer["line"]]
                key, value = model.key(text), float(answer["score"])
                add_score(self._file(model), key, value)
                known[model.score][key] = value
        if any(model.key(text) not in known[model.score] for model, text in work):
            raise ZooError(f"COMET has not scored all of {len(work)} texts.")
        return {
            model.score: [known[model.score][model.key(text)] for text in texts]
            for model in self.models
        }

    def _file(self, model: CometModel) -> Path:
        """Return the path of the cached scores of a model."""
        return self._cache / f"{model.fingerprint}.jsonl"


def environment(python: str | None) -> Path:
    """Return the Python of the environment of unbabel-comet.

    Args:
        python: Path that the user names; None: that of ``make comet``.

    Raises:
        ZooError: There is none.
    """
    if python is not None:
        if not Path(python).is_file():
            raise ZooError(f"evaluation.comet_python: there is no file {python}.")
        return Path(python).absolute()
    for root in (Path.cwd(), REPOSITORY):
        if (root / ENVIRONMENT).is_file():
            return root / ENVIRONMENT
    raise ZooError(
        "COMET needs an environment of its own, .venv-comet: run `make comet`, or set "
        "evaluation.comet_python to the Python of an environment with requirements-comet.txt."
    )


def read_scores(path: Path) -> dict[str, float]:
    """Return the scores of a cache file by key; damaged lines are skipped."""
    scores: dict[str, float] = {}
    if path.is_file():
        for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
            with suppress(ValueError, KeyError, TypeError):
                record = json.loads(line)
                score = float(record["score"])
                if isfinite(score):
                    scores[record["key"]] = score
    return scores


def add_score(path: Path, key: str, score: float) -> None:
    """Append a score to a cache file. Raises ZooError if the folder is not writable."""
    line = json.dumps({"key": key, "score": score}) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        append_line(path, line)
    except OSError as error:
        raise ZooError(
            f"Cannot write to the cache folder {path.parent} ({error.strerror}); "
            "set SIMULZOO_CACHE to a writable folder."
        ) from error


def _run(python: Path, arguments: Sequence[str], lines: Sequence[Record]) -> Iterator[Record]:
    """Run ``score.py`` and yield its JSON lines.

    Args:
        python: Python of the environment. ``-I`` keeps this process' paths away from it.
        arguments: Arguments of the script.
        lines: Its standard input.

    Raises:
        ZooError: The process cannot be started, fails, or prints something else.
    """
    command = [str(python), "-I", "-X", "utf8", str(SCRIPT), *arguments]
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as errors:
        source.writelines(json.dumps(line).encode() + b"\n" for line in lines)
        source.seek(0)
        try:
            process = subprocess.Popen(command, stdin=source, stdout=subprocess.PIPE, stderr=errors)
        except OSError as error:
            raise ZooError(f"Cannot start {python} for COMET: {error.strerror}.") from error
        with process:
            try:
                for line in process.stdout or ():
                    yield _answer(line, python)
            except BaseException:  # also an interrupt, and a caller that needs no further line
                process.kill()
                raise
        if process.returncode:
            errors.seek(0)
            message = errors.read().decode(errors="replace").strip().split("\n")[-1]
            message = message.removeprefix("error: ")
            raise ZooError(f"COMET has stopped with exit code {process.returncode}: {message}")


def _answer(line: bytes, python: Path) -> Record:
    """Return a JSON line of the script. Raises ZooError for another line."""
    try:
        answer = json.loads(line)
    except ValueError as error:
        raise ZooError(f"{python} printed a line that is no JSON: {line[:80]!r}.") from error
    if not isinstance(answer, dict):
        raise ZooError(f"{python} printed a line that is no JSON object: {line[:80]!r}.")
    return answer
