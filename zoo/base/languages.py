"""Languages: codes, names, units and joining rules.

Only this module decides which languages are written without spaces between words.
"""

import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from zoo.base.errors import ZooError, check_choice
from zoo.base.types import UnitKind


@dataclass(frozen=True, slots=True)
class Language:
    """A written language.

    Attributes:
        code: ISO 639-1 code, or Whisper's code of a language without one (``haw``, ``yue``).
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


# Languages with words between spaces by script: those of Whisper and of the other backbones.
_BY_SCRIPT = {
    "LATIN": (
        "af Afrikaans, az Azerbaijani, br Breton, bs Bosnian, ca Catalan, cs Czech, cy Welsh, "
        "da Danish, de German, en English, es Spanish, et Estonian, eu Basque, fi Finnish, "
        "fo Faroese, fr French, gl Galician, ha Hausa, haw Hawaiian, hr Croatian, "
        "ht Haitian Creole, hu Hungarian, id Indonesian, is Icelandic, it Italian, jw Javanese, "
        "la Latin, lb Luxembourgish, ln Lingala, lt Lithuanian, lv Latvian, mg Malagasy, mi Maori, "
        "ms Malay, mt Maltese, nl Dutch, nn Nynorsk, no Norwegian, oc Occitan, pl Polish, "
        "pt Portuguese, ro Romanian, sk Slovak, sl Slovenian, sn Shona, so Somali, sq Albanian, "
        "su Sundanese, sv Swedish, sw Swahili, tk Turkmen, tl Tagalog, tr Turkish, uz Uzbek, "
        "vi Vietnamese, yo Yoruba"
    ),
    "CYRILLIC": (
        "ba Bashkir, be Belarusian, bg Bulgarian, kk Kazakh, mk Macedonian, mn Mongolian, "
        "ru Russian, sr Serbian, tg Tajik, tt Tatar, uk Ukrainian"
    ),
    "ARABIC": "ar Arabic, fa Persian, ps Pashto, sd Sindhi, ur Urdu",
    "DEVANAGARI": "hi Hindi, mr Marathi, ne Nepali, sa Sanskrit",
    "BENGALI": "as Assamese, bn Bengali",
    "HEBREW": "he Hebrew, yi Yiddish",
    "ARMENIAN": "hy Armenian",
    "ETHIOPIC": "am Amharic",
    "GEORGIAN": "ka Georgian",
    "GREEK": "el Greek",
    "GUJARATI": "gu Gujarati",
    "GURMUKHI": "pa Punjabi",
    "KANNADA": "kn Kannada",
    "MALAYALAM": "ml Malayalam",
    "SINHALA": "si Sinhala",
    "TAMIL": "ta Tamil",
    "TELUGU": "te Telugu",
}
LANGUAGES: dict[str, Language] = {
    language.code: language
    for language in sorted(
        (
            Language("bo", "Tibetan", "char", "char", scripts=("TIBETAN",)),
            Language("ja", "Japanese", "char", "ja-mecab", ("CJK", "HIRAGANA", "KATAKANA")),
            Language("km", "Khmer", "char", "char", scripts=("KHMER",)),
            Language("ko", "Korean", bleu_tokenizer="ko-mecab", scripts=("HANGUL",)),
            Language("lo", "Lao", "char", "char", scripts=("LAO",)),
            Language("my", "Burmese", "char", "char", scripts=("MYANMAR",)),
            Language("th", "Thai", "char", "char", scripts=("THAI",)),
            Language("yue", "Cantonese", "char", "zh", scripts=("CJK",)),
            Language("zh", "Chinese", "char", "zh", scripts=("CJK",)),
            *(
                Language(code, name, scripts=(script,))
                for script, entries in _BY_SCRIPT.items()
                for code, _, name in (entry.partition(" ") for entry in entries.split(", "))
            ),
        ),
        key=lambda language: language.code,
    )
}

DETECTED = Language("auto", "the detected language")  # of speech whose language is not known yet


def language(code: str) -> Language:
    """Return the language of a code.

    Args:
        code: code of the language, such as ``de``.

    Raises:
        ZooError: there is no such language.
    """
    check_choice("language", code, LANGUAGES)
    return LANGUAGES[code]


def spoken_language(code: str) -> Language:
    """Return the language of a code, or ``DETECTED`` for ``auto``; see :func:`language`."""
    return DETECTED if code == DETECTED.code else language(code)


def check_transcription(model: str, source: Language, target: Language) -> None:
    """Check the languages of a model that transcribes.

    Args:
        model: Name of the model in the message.
        source: Language of the speech.
        target: Language of the output.

    Raises:
        ZooError: They are not the same.
    """
    if source != target:
        raise ZooError(
            f"{model} transcribes {source.name} but does not translate it to {target.name}; choose "
            f"it as the transcriber of a cascade, or set target_language={source.code}."
        )


def spelling(word: str) -> str:
    """Return the normal form of a spoken word: in lower case, no punctuation at its ends."""
    return word.lower().strip(string.punctuation)


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
