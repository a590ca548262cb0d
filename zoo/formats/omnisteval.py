"""Reads OmniSTEval's ``instances.resegmented.jsonl``: one line per segment.

Times count from the start of the segment. Elapsed times are corrected already.
"""

from collections.abc import Sequence
from pathlib import Path

from zoo.base.errors import ZooError
from zoo.base.languages import Language
from zoo.base.types import Instance
from zoo.formats import simuleval
from zoo.formats.text import Line


def instances(records: Sequence[Line], path: Path, language: Language) -> list[Instance]:
    """One instance per segment, named ``<docid>-<segid>``.

    Args:
        records: lines of the file.
        path: the file, for messages.
        language: target language.

    Raises:
        ZooError: a segment has words but no emission times.
    """
    converted = [_as_simuleval(line, record, path) for line, record in enumerate(records)]
    return simuleval.instances(converted, path, language, format="omnisteval")


def _as_simuleval(line: int, record: Line, path: Path) -> Line:
    talk = f"{record.get('docid', 0)}-{record.get('segid', record.get('index', line))}"
    if record.get("prediction") and "emission_cu" not in record:
        raise ZooError(
            f"{path}, line {record.line}: segment {talk} has no 'emission_cu'; "
            "is this an OmniSTEval instances.resegmented.jsonl?"
        )
    times = {"delays": record.get("emission_cu", []), "elapsed": record.get("emission_ca", [])}
    converted = Line({**record, "talk": talk, **times, "repaired": True})
    converted.line = record.line
    return converted
