"""Subtitles of a stream: SubRip (SRT) and WebVTT files whose times are those of the emissions.

Subtitles of a broadcast follow the speaker; these follow the system. A cue starts when its first
word was emitted, compute included, and holds the words of the next seconds, so that it can be read.
WebVTT files have the time of every word as well, and a player shows each word at its own time.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from math import inf

from zoo.base.types import Instance, Seconds

# Two lines of 42 columns, 21 characters per second: as MuST-Cinema (Karakanta et al., 2020).
COLUMNS = 42
LINES = 2
READING_SPEED = 21.0  # characters per second
SPAN: Seconds = 3.0  # a cue has no word that was emitted this much after its first word
LEAST: Seconds = 1.0  # a cue that would be shown for a shorter time joins the one before it
LONGEST: Seconds = 7.0  # longest duration of a cue that others join
LINGER: Seconds = 3.0  # a cue stays so long after it could be read, if no other cue follows
SENTENCE_ENDS = tuple(".!?…。！？")
CLOSING = "\"'”’»)]」』）】"  # may follow the mark that ends a sentence
NO_LINE_START = "、，。！？：；…,.!?:;%）】」』”’)»"


@dataclass(frozen=True, slots=True)
class TimedWord:
    """A word that no line break divides.

    Attributes:
        text: the word, with white space after it if the text has some.
        at: time of its emission in seconds since the stream began.
    """

    text: str
    at: Seconds


@dataclass(frozen=True, slots=True)
class Cue:
    """A subtitle.

    Attributes:
        start: time in seconds since the stream began from which the cue is shown.
        end: time at which the cue disappears.
        lines: words of each line.
    """

    start: Seconds
    end: Seconds
    lines: tuple[tuple[TimedWord, ...], ...]


def srt(instance: Instance) -> str:
    """Return the translation of a stream as a SubRip file."""
    blocks = [
        f"{number}\n{_time(cue.start, ',')} --> {_time(cue.end, ',')}\n{_plain(cue)}\n"
        for number, cue in enumerate(cues(instance), start=1)
    ]
    return "\n".join(blocks)


def vtt(instance: Instance) -> str:
    """Return the translation of a stream as a WebVTT file with the time of every emission."""
    blocks = [
        f"{_time(cue.start, '.')} --> {_time(cue.end, '.')}\n{_timed(cue)}\n"
        for cue in cues(instance)
    ]
    return "\n".join(["WEBVTT\n", *blocks])


def cues(instance: Instance) -> list[Cue]:
    """Group the words of a stream into cues of at most two lines of 42 columns.

    A cue holds whole emissions: it ends before an emission that does not fit, that is 3 s or more
    after its first one, or that follows the end of a sentence. A cue starts at the emission of its
    first word. If one emission fills several cues, those after the first follow it one after the
    other. A cue that would be shown for less than a second joins the one before it if it fits.

    Args:
        instance: stream with elapsed times; delays are used for a log without.
    """
    groups = _joined(list(_grouped(timed_words(instance))))
    moments = [group[0].at for group in groups]
    starts: list[Seconds] = []
    for at, indices in groupby(range(len(groups)), key=lambda index: moments[index]):
        same = list(indices)
        following = next((moment for moment in moments[same[-1] :] if moment > at), None)
        starts += _one_after_the_other([_reading_time(groups[p]) for p in same], at, following)

    ends = [
        max(group[-1].at + LEAST, start + _reading_time(group) + LINGER)
        for start, group in zip(starts, groups, strict=True)
    ]
    ends = [min(end, after) for end, after in zip(ends, [*starts, inf][1:], strict=True)]
    return [
        Cue(start, end, _lines(group))
        for start, end, group in zip(starts, ends, groups, strict=True)
    ]


def timed_words(instance: Instance) -> list[TimedWord]:
    """Return the words of a stream with the times of their emissions.

    In a language without spaces a word is a character with the punctuation marks that follow it, or
    a run of Latin letters. A word that is wider than a line is divided.
    """
    # So that no word is shown before an earlier word.
    times = accumulate(instance.elapsed or instance.delays, max)
    words: list[TimedWord] = []
    position = 0
    for unit, at in zip(instance.units, times, strict=True):
        begin = instance.text.find(unit, position)
        position = (begin if begin >= 0 else position) + len(unit)
        spaced = instance.unit == "word" or instance.text[position : position + 1].isspace()
        text = f"{unit} " if spaced else unit
        if (
            instance.unit == "char"
            and words
            and words[-1].at == at
            and _joins(words[-1].text, unit)
        ):
            words[-1] = TimedWord(words[-1].text + text, at)
        else:
            words += [TimedWord(piece, at) for piece in _pieces(text)]
    return words


def _pieces(word: str) -> Iterator[str]:
    """Divide a word that is wider than a line."""
    piece = ""
    for character in word:
        if width((piece + character).rstrip()) > COLUMNS:
            yield piece
            piece = ""
        piece += character
    yield piece


def _joins(before: str, unit: str) -> bool:
    """Return whether a character is shown on the line of the text before it."""
    last = before[-1]
    return unit in NO_LINE_START or ((last + unit).isascii() and (last + unit).isalnum())


def _grouped(words: Sequence[TimedWord]) -> Iterator[list[TimedWord]]:
    """Yield the words of each cue."""
    cue: list[TimedWord] = []
    for at, emitted in groupby(words, key=lambda word: word.at):
        emission = list(emitted)
        if cue and (
            at - cue[0].at >= SPAN
            or ends_sentence(cue[-1].text)
            or len(_filled([*cue, *emission])) > LINES
        ):
            yield cue
            cue = []
        for word in emission:
            if len(_filled([*cue, word])) > LINES:
                yield cue
                cue = []
            cue.append(word)
    if cue:
        yield cue


def _joined(groups: Sequence[list[TimedWord]]) -> list[list[TimedWord]]:
    """Add the words of a cue that would be shown too shortly to the cue before it if they fit."""
    moments = [*(group[0].at for group in groups), inf]
    joined: list[list[TimedWord]] = []
    for group, (at, following) in zip(groups, pairwise(moments), strict=True):
        if (
            joined
            and following - at < LEAST
            and following - joined[-1][0].at < LONGEST
            and len(_filled([*joined[-1], *group])) <= LINES
        ):
            joined[-1] = [*joined[-1], *group]
        else:
            joined.append(group)
    return joined


def _one_after_the_other(
    durations: Sequence[Seconds], start: Seconds, following: Seconds | None
) -> list[Seconds]:
    """Return the starts of cues whose words were emitted at the same time.

    Args:
        durations: time in which each cue can be read.
        start: time of the emission.
        following: time of the next emission, before which all cues are shown; None: the last one.
    """
    total = sum(durations)
    scale = 1.0 if following is None else min(1.0, (following - start) / total)
    starts = [start]
    for duration in durations[:-1]:
        starts.append(starts[-1] + scale * duration)
    return starts


def _lines(words: Sequence[TimedWord]) -> tuple[tuple[TimedWord, ...], ...]:
    """Divide the words of a cue into one line, or into two lines of about equal width."""
    if len(_filled(words)) == 1:
        return (tuple(words),)
    choices = [(tuple(words[:index]), tuple(words[index:])) for index in range(1, len(words))]
    return min(choices, key=lambda lines: max(width(_text(line)) for line in lines))


def _filled(words: Sequence[TimedWord]) -> list[list[TimedWord]]:
    """Divide words into lines, each as full as it can be."""
    lines: list[list[TimedWord]] = []
    for word in words:
        if lines and width(_text([*lines[-1], word])) <= COLUMNS:
            lines[-1].append(word)
        else:
            lines.append([word])
    return lines


def width(text: str) -> int:
    """Return the columns of a text; a Chinese or Japanese character has two."""
    wide = sum(unicodedata.east_asian_width(character) in "FW" for character in text)
    marks = sum(unicodedata.combining(character) > 0 for character in text)
    return len(text) + wide - marks


def _reading_time(words: Sequence[TimedWord]) -> Seconds:
    """Return the time in which a cue can be read."""
    return max(LEAST, width(_text(words)) / READING_SPEED)


def ends_sentence(text: str) -> bool:
    """Return whether the last word of a text ends a sentence."""
    return text.rstrip().rstrip(CLOSING).endswith(SENTENCE_ENDS)


def _text(words: Sequence[TimedWord]) -> str:
    return "".join(word.text for word in words).rstrip()


def _plain(cue: Cue) -> str:
    return "\n".join(_text(line) for line in cue.lines)


def _timed(cue: Cue) -> str:
    """Return the lines of a cue with a WebVTT time stamp where a later emission begins."""
    shown = cue.start
    lines = []
    for line in cue.lines:
        text = ""
        for word in line:
            # A time stamp lies after the start of its cue and before its end.
            if shown < word.at < cue.end:
                text += f"<{_time(word.at, '.')}>"
                shown = word.at
            text += _escaped(word.text)
        lines.append(text.rstrip())
    return "\n".join(lines)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _time(seconds: Seconds, separator: str) -> str:
    """Return a time such as 00:01:02,345 with a mark before the milliseconds."""
    whole, milliseconds = divmod(round(seconds * 1000), 1000)
    minutes, second = divmod(whole, 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}{separator}{milliseconds:03d}"
