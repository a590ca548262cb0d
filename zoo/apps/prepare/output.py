"""What a preparation writes beside the work of its steps: the manifest and a table of segments."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from zoo.apps.prepare.items import Item
from zoo.apps.prepare.shards import remove_surplus, with_shards
from zoo.base.disk.files import atomic_file
from zoo.base.disk.tar_members import stored_in
from zoo.base.errors import ZooError
from zoo.data import manifest

COLUMNS = ("talk", "segment", "offset", "duration", "usable", "reason", "detail", "scores")


def write_split(
    folder: Path, split: str, items: Iterable[Item], *, tar_megabytes: int | None = None
) -> list[Item]:
    """Write ``<split>.jsonl`` for data=aligned, and ``<split>.segments.tsv``.

    Args:
        folder: folder of the prepared corpus.
        split: name of the split.
        items: items after the last step.
        tar_megabytes: size of the tar archives of the audio that the talks name; None: they name
            audio files.

    Returns:
        The items.

    Raises:
        ZooError: no talk is left, or audio that a step has written is no longer there.
    """
    prepared = list(items)
    if not any(not item.problem for item in prepared):
        raise ZooError(f"No talk of the split {split!r} can be used, so nothing is written.")
    with (
        atomic_file(folder / f"{split}.segments.tsv") as table,
        table.open("w", encoding="utf-8", newline="\n") as file,
    ):
        file.write("\t".join(COLUMNS) + "\n")
        file.writelines(row for item in prepared for row in _rows(item))
    talks = [_with_audio(item).finished() for item in prepared if not item.problem]
    if tar_megabytes is not None:
        talks = with_shards(talks, folder, split, tar_megabytes)
    with (
        atomic_file(folder / f"{split}.jsonl") as lines,
        lines.open("w", encoding="utf-8", newline="\n") as file,
    ):
        file.writelines(f"{manifest.encode(talk, folder=folder)}\n" for talk in talks)
    remove_surplus(talks, folder, split)
    return prepared


def _with_audio(item: Item) -> Item:
    """Return an item whose audio is there. Raises ZooError if it is not."""
    if not stored_in(item.talk.file).is_file():
        raise ZooError(
            f"Audio file {item.talk.file} of talk {item.talk.name!r} is no longer there; delete "
            "the results of the step audio below work/ and start again."
        )
    return item


def _rows(item: Item) -> Iterator[str]:
    """Yield a line for each segment of a talk; of a talk that is left out, one line."""
    if item.problem:
        yield _row(item.talk.name, "", "", "", "no", "audio", item.problem, "")
    for number, (segment, note) in enumerate(zip(item.talk.segments, item.notes, strict=True)):
        scores = " ".join(
            f"{name.replace(' ', '_')}={value}" for name, value in note.scores.items()
        )
        yield _row(
            item.talk.name,
            number,
            f"{segment.offset:.3f}",
            f"{segment.duration:.3f}",
            "no" if note.reason else "yes",
            note.reason,
            note.detail,
            scores,
        )


def _row(*cells: object) -> str:
    """Return a line of a table; white space in a cell becomes single spaces."""
    return "\t".join(" ".join(str(cell).split()) for cell in cells) + "\n"
