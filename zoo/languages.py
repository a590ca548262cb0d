"""Languages: codes, names, units and joining rules.

Only this module decides which languages are written without spaces between words.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from zoo.errors import check_choice
from zoo.types import UnitKind


@dataclass(frozen=True, slots=True)
class Language:
    """A written language.

    Attributes:
        code: ISO 639-1 code.
        name: English name.
        unit: Unit in which latency counts the text: words or characters.
        bleu_tokenizer: Name of the sacreBLEU tokenizer.
        scripts: Prefixes of the Unicode names of its letters.
    """

    code: str
    name: str
    unit: UnitKind = "word"
    bleu_tokenizer: str = "13a"
    scripts: tuple[str, ...] = ("LATIN",)

    @property
    def separator(self) -> str:
        """The string between two words, and between two independent parts of a translation."""
        return "" if self.unit == "char" else " "

    def units(self, text: str) -> list[str]:
        """Split text into words, or into characters without white space."""
        return list("".join(text.split())) if self.unit == "char" else text.split()

    def words(self, text: str) -> list[str]:
        """Split text into words, without punctuation marks, also in languages without spaces.

        Text without spaces is split by jieba. jieba is made for Chinese; it finds most Japanese
        words but splits Thai into characters.
        """
        parts = _jieba().lcut(text) if self.unit == "char" else text.split()
        return [part for part in parts if any(map(str.isalnum, part))]

    def segmented(self, text: str) -> list[str]:
        """Split text into words, or into jieba's words and punctuation marks, without white space.

        The characters of the words are those of :meth:`units`.
        """
        if self.unit != "char":
            return text.split()
        return [word for part in _jieba().lcut(text) if (word := "".join(part.split()))]

    def with_spaces(self, text: str, units: Sequence[str]) -> list[str]:
        """Return units with the space that the text has before them, without spaces between words.

        Chinese has spaces around Latin names and between clauses, which no unit contains: the units
        of "用 Bill Gates" are 用, " B", i, l, l, " G" and so on. Their join is the text. Other
        languages, and a text of other units, have their units unchanged.

        Args:
            text: the text.
            units: its units.
        """
        if self.unit != "char" or "".join(units) != "".join(text.split()):
            return list(units)
        spaced: list[str] = []
        end = 0
        for unit in units:
            start = end
            while text[start].isspace():
                start += 1
            spaced.append(" " + unit if start > end and spaced else unit)
            end = start + len(unit)
        return spaced

    def join(self, units: Iterable[str]) -> str:
        """Join units to a text. :meth:`units` splits the text into the same units again."""
        return self.separator.join(units)


LANGUAGES: dict[str, Language] = {
    language.code: language
    for language in (
        Language("ar", "Arabic", scripts=("ARABIC",)),
        Language("ca", "Catalan"),
        Language("cs", "Czech"),
        Language("de", "German"),
        Language("en", "English"),
        Language("es", "Spanish"),
        Language("fa", "Persian", scripts=("ARABIC",)),
        Language("fr", "French"),
        Language("it", "Italian"),
        Language("ja", "Japanese", "char", "ja-mecab", scripts=("CJK", "HIRAGANA", "KATAKANA")),
        Language("ko", "Korean", bleu_tokenizer="ko-mecab", scripts=("HANGUL",)),
        Language("nl", "Dutch"),
        Language("pt", "Portuguese"),
        Language("ro", "Romanian"),
        Language("ru", "Russian", scripts=("CYRILLIC",)),
        Language("th", "Thai", "char", "char", scripts=("THAI",)),
        Language("tr", "Turkish"),
        Language("vi", "Vietnamese"),
        Language("zh", "Chinese", "char", "zh", scripts=("CJK",)),
    )
}


def language(code: str) -> Language:
    """Return the language of a code.

    Args:
        code: code of the language, such as ``de``.

    Raises:
        ZooError: there is no such language.
    """
    check_choice("language", code, LANGUAGES)
    return LANGUAGES[code]


@cache
def _jieba() -> Any:
    """Return jieba's tokenizer with its default dictionary.

    jieba's own initialisation prints messages and writes a cache to the temporary folder.
    """
    import jieba

    tokenizer = jieba.Tokenizer()
    tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(tokenizer.get_dict_file())
    tokenizer.initialized = True
    return tokenizer
