"""The card of a prepared split: a page with statistics and samples, and its numbers as JSON."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from zoo.apps.prepare.items import Item
from zoo.apps.prepare.statistics import BINS, statistics
from zoo.apps.prepare.steps.trajectories import LAG, is_aligned
from zoo.apps.prepare.trajectories import CHUNK
from zoo.base.disk.files import write_text
from zoo.base.languages import language
from zoo.base.talks import Segment
from zoo.base.types import Seconds
from zoo.data.trajectories import chunked_words
from zoo.data.views import sentences
from zoo.report.sounds import excerpt

SAMPLES = 6  # number of sample segments, of those that trainings use
LONGEST: Seconds = 30.0  # longest audio of a sample
WIDTH, HEIGHT = 300, 90  # size of a plot in units of its SVG


def write_card(
    folder: Path, split: str, items: Sequence[Item], facts: Mapping[str, str], steps: Sequence[str]
) -> dict[str, Any]:
    """Write ``<split>.card.html`` and ``<split>.card.json``.

    Args:
        folder: folder of the prepared corpus.
        split: name of the split.
        items: items after the last step.
        facts: settings by name.
        steps: names of the steps.

    Returns:
        The statistics.

    Raises:
        ZooError: audio cannot be read.
    """
    stats = statistics(split, items, steps)
    text = json.dumps(stats, indent=1, ensure_ascii=False)
    write_text(folder / f"{split}.card.json", f"{text}\n")

    assets = files("zoo.apps.prepare") / "assets"
    style = (files("zoo.report") / "assets" / "page.css").read_text(encoding="utf-8")
    page = Template((assets / "card.html").read_text(encoding="utf-8")).substitute(
        title=escape(f"{folder.resolve().name}, {split}"),
        style=style + (assets / "card.css").read_text(encoding="utf-8"),
        lede=escape(_lede(stats)),
        numbers="\n".join(_numbers(stats)),
        plots="\n".join(map(_plot, stats["quantities"])),
        reasons=_reasons(stats, items),
        samples="\n".join(_samples(items)) or '<p class="empty">No segment has a trajectory.</p>',
        facts="\n".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts.items()),
    )
    write_text(folder / f"{split}.card.html", page)
    return stats


def _lede(stats: Mapping[str, Any]) -> str:
    """Return what the split is, in one sentence."""
    source = language(stats["source_language"]).name
    *others, last = [language(code).name for code in stats["target_languages"]] or [""]
    targets = f"{', '.join(others)} and {last}" if others else last
    into = f" with translations into {targets}" if targets else ""
    return (
        f"{stats['usable_segments']} of {stats['segments']} segments of {stats['talks']} talks in "
        f"{source}{into} can be used by trainings."
    )


def _numbers(stats: Mapping[str, Any]) -> Iterator[str]:
    """Yield the headline numbers."""
    numbers = {
        "hours of talks": f"{stats['hours']:.2f}",
        "hours of usable segments": f"{stats['usable_hours']:.2f}",
    }
    for one in stats["quantities"]:
        if one["name"].startswith(LAG):
            code = one["name"].removeprefix(LAG)
            direction = f"{stats['source_language']}-{code}"
            numbers[f"LAAL of the trajectories {direction}"] = f"{1000 * one['mean']:.0f} ms"
    if stats["replaced_translations"]:
        numbers["translations replaced by a model"] = str(stats["replaced_translations"])
    if stats["left_out_talks"]:
        numbers["talks left out"] = str(len(stats["left_out_talks"]))
    for name, value in numbers.items():
        yield f"<li><b>{escape(value)}</b><span>{escape(name)}</span></li>"


def _plot(one: Mapping[str, Any]) -> str:
    """Return a histogram with its numbers."""
    top = max(one["counts"])
    step = WIDTH / BINS
    end = one["start"] + BINS * one["width"]
    bars = "".join(
        f'<rect x="{index * step + 0.5:.1f}" y="{HEIGHT - HEIGHT * count / top:.1f}" '
        f'width="{step - 1:.1f}" height="{HEIGHT * count / top:.1f}">'
        f"<title>{one['start'] + index * one['width']:.2f} to "
        f"{one['start'] + (index + 1) * one['width']:.2f}: {count}</title></rect>"
        for index, count in enumerate(one["counts"])
        if count
    )
    name, unit = escape(one["name"]), escape(one["unit"])
    return (
        f"<figure><figcaption>{name} <small>{unit}</small></figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT + 18}" role="img" aria-label="Histogram: {name}">'
        f'{bars}<line class="axis" x1="0" x2="{WIDTH}" y1="{HEIGHT}" y2="{HEIGHT}"/>'
        f'<text class="tick" x="0" y="{HEIGHT + 15}">{one["start"]:.2f}</text>'
        f'<text class="tick" x="{WIDTH}" y="{HEIGHT + 15}" text-anchor="end">{end:.2f}</text></svg>'
        f"<p>mean {one['mean']:.2f}, median {one['median']:.2f}, 90 % below {one['p90']:.2f}, "
        f"{one['minimum']:.2f} to {one['maximum']:.2f}, n = {one['count']}</p></figure>"
    )


def _reasons(stats: Mapping[str, Any], items: Sequence[Item]) -> str:
    """Return the tables of reasons, with an example of each, and of talks that are left out."""
    if not stats["reasons"] and not stats["left_out_talks"]:
        return '<p class="empty">All segments can be used.</p>'
    rows = [
        f'<tr><td>{escape(reason)}</td><td class="number">{one["segments"]}</td>'
        f'<td class="number">{one["minutes"]:.1f}</td>'
        f'<td class="number">{100 * one["segments"] / stats["segments"]:.1f} %</td>'
        f"<td>{_example(items, reason)}</td></tr>"
        for reason, one in stats["reasons"].items()
    ]
    table = (
        '<div class="scroll"><table class="list"><tr><th>reason</th>'
        '<th class="number">segments</th><th class="number">minutes</th>'
        '<th class="number">share</th><th>first one</th></tr>'
        f"{''.join(rows)}</table></div>"
    )
    talks = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(problem)}</td></tr>"
        for name, problem in stats["left_out_talks"].items()
    )
    left_out = f'<h3>Talks that are left out</h3><table class="list">{talks}</table>'
    return (table if rows else "") + (left_out if talks else "")


def _example(items: Sequence[Item], reason: str) -> str:
    """Return the first segment with a reason."""
    item, index = next(
        (item, index)
        for item in items
        for index, note in enumerate(item.notes)
        if note.reason == reason
    )
    segment, detail = item.talk.segments[index], item.notes[index].detail
    texts = [segment.source, *(target.text for target in segment.targets.values())]
    lines = "<br>".join(escape(text) for text in texts)
    return (
        f"{lines}<br><small>{escape(item.talk.name)}, {segment.offset:.1f} s"
        f"{escape(f': {detail}' if detail and detail != segment.source else '')}</small><br>"
        f"{_player(item, segment)}"
    )


def _player(item: Item, segment: Segment) -> str:
    """Return a player of the beginning of a segment."""
    start = item.talk.offset + segment.offset
    sound = excerpt(item.talk.file, start, min(segment.duration, LONGEST))
    return f'<audio controls preload="none" src="data:{sound.type};base64,{sound.text}"></audio>'


def _samples(items: Sequence[Item]) -> Iterator[str]:
    """Yield segments of talks in equal distances, each with its trajectories."""
    candidates = [
        (item, index)
        for item in items
        for index, segment in enumerate(item.talk.segments)
        if item.usable[index] and is_aligned(segment) and segment.duration <= LONGEST
    ]
    chosen = [
        candidates[round(i * len(candidates) / SAMPLES)]
        for i in range(min(SAMPLES, len(candidates)))
    ]
    for item, index in chosen:
        segment = item.talk.segments[index]
        scores = ", ".join(
            f"{name} {value:.2f}" for name, value in item.notes[index].scores.items()
        )
        yield (
            f'<div class="sample">{_player(item, segment)}'
            f'<div class="scroll"><table class="list">{"".join(_turns(item, index))}</table></div>'
            f"<p>{escape(item.talk.name)}, {segment.offset:.1f} s; {escape(scores)}</p></div>"
        )


def _turns(item: Item, index: int) -> Iterator[str]:
    """Yield the rows of a table: time, source words and the words that are written."""
    sentence = sentences([item.talk])[index]
    [segment] = sentence.segments
    chunks = math.ceil(sentence.duration / CHUNK)
    targets = {
        code: chunked_words([segment], code, start=0.0, chunks=chunks, chunk_seconds=CHUNK)
        for code in segment.targets
    }
    names = [language(code).name for code in (sentence.source_language, *targets)]
    yield f"<tr><th>s</th>{''.join(f'<th>{name}</th>' for name in names)}</tr>"
    spoken = language(sentence.source_language)
    for chunk in range(chunks):
        begin, end = chunk * CHUNK, (chunk + 1) * CHUNK
        words = [word.text for word in segment.words if begin < word.end <= end]
        texts = [spoken.join(words)]
        texts += [language(code).join(turns[chunk]) for code, turns in targets.items()]
        cells = "".join(f"<td>{escape(text)}</td>" for text in texts)
        yield f"<tr><td>{min(end, sentence.duration):.2f}</td>{cells}</tr>"
