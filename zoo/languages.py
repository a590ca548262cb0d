"""Language codes, names, units and joining rules: the only place that knows which languages write without spaces."""

from collections.abc import Iterable
from dataclasses import dataclass

from zoo.errors import unknown
from zoo.types import UnitKind


@dataclass(frozen=True, slots=True)
class Language:
    """A written language: how latency counts it, how BLEU cuts it and how its words join."""

    code: str
    name: str
    unit: UnitKind = "word"
    bleu_tokenizer: str = "13a"

    @property
    def separator(self) -> str:
        """What stands between two words (and between two turns of a translation)."""
        return "" if self.unit == "char" else " "

    def units(self, text: str) -> list[str]:
        """Words, or characters without white space: what delays are counted in."""
        return list("".join(text.split())) if self.unit == "char" else text.split()

    def join(self, units: Iterable[str]) -> str:
        """The inverse of :meth:`units` up to white space."""
        return self.separator.join(units)


LANGUAGES: dict[str, Language] = {
    language.code: language
    for language in (
        Language("ar", "Arabic"),
        Language("ca", "Catalan"),
        Language("cs", "Czech"),
        Language("de", "German"),
        Language("en", "English"),
        Language("es", "Spanish"),
        Language("fa", "Persian"),
        Language("fr", "French"),
        Language("it", "Italian"),
        Language("ja", "Japanese", "char", "ja-mecab"),
        Language("ko", "Korean"),
        Language("nl", "Dutch"),
        Language("pt", "Portuguese"),
        Language("ro", "Romanian"),
        Language("ru", "Russian"),
        Language("th", "Thai", "char", "char"),
        Language("tr", "Turkish"),
        Language("vi", "Vietnamese"),
        Language("zh", "Chinese", "char", "zh"),
    )
}


def language(code: str) -> Language:
    """Look a language up by its code. Raises ZooError naming the known codes."""
    if code not in LANGUAGES:
        raise unknown("language", code, LANGUAGES)
    return LANGUAGES[code]
