"""Language codes, names, units and joining rules: the only place that knows which languages write without spaces."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from zoo.errors import unknown_choice
from zoo.types import UnitKind


@dataclass(frozen=True, slots=True)
class Language:
    """A written language: how latency counts it, how BLEU cuts it, how its words join and what its letters are.

    scripts: how the Unicode names of its letters begin.
    """

    code: str
    name: str
    unit: UnitKind = "word"
    bleu_tokenizer: str = "13a"
    scripts: tuple[str, ...] = ("LATIN",)

    @property
    def separator(self) -> str:
        """What stands between two words (and between two turns of a translation)."""
        return "" if self.unit == "char" else " "

    def units(self, text: str) -> list[str]:
        """Words, or characters without white space: what delays are counted in."""
        return list("".join(text.split())) if self.unit == "char" else text.split()

    def words(self, text: str) -> list[str]:
        """Words, which policies count; without spaces, those that jieba finds. Punctuation alone is none.

        jieba knows Chinese. Of Japanese it finds most words, of Thai only characters.
        """
        parts = _jieba().lcut(text) if self.unit == "char" else text.split()
        return [part for part in parts if any(map(str.isalnum, part))]

    def join(self, units: Iterable[str]) -> str:
        """The inverse of :meth:`units` up to white space."""
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
        Language("ko", "Korean", scripts=("HANGUL",)),
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
    """Look a language up by its code. Raises ZooError naming the known codes."""
    if code not in LANGUAGES:
        raise unknown_choice("language", code, LANGUAGES)
    return LANGUAGES[code]


@cache
def _jieba() -> Any:
    """jieba's tokenizer with its own dictionary; its usual way prints, and leaves a cache in the temporary folder."""
    import jieba

    tokenizer = jieba.Tokenizer()
    tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(tokenizer.get_dict_file())
    tokenizer.initialized = True
    return tokenizer
