"""Languages of SeamlessM4T: language codes, and their ids in the parts of the network."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Self

from transformers import GenerationConfig

from zoo.backbones.pretrained.loading import control_id
from zoo.base.errors import ZooError
from zoo.base.languages import Language

CODES = {  # language code of the zoo -> language code of SeamlessM4T
    "af": "afr",
    "am": "amh",
    "ar": "arb",
    "as": "asm",
    "az": "azj",
    "be": "bel",
    "bg": "bul",
    "bn": "ben",
    "bs": "bos",
    "ca": "cat",
    "cs": "ces",
    "cy": "cym",
    "da": "dan",
    "de": "deu",
    "el": "ell",
    "en": "eng",
    "es": "spa",
    "et": "est",
    "eu": "eus",
    "fa": "pes",
    "fi": "fin",
    "fr": "fra",
    "gl": "glg",
    "gu": "guj",
    "he": "heb",
    "hi": "hin",
    "hr": "hrv",
    "hu": "hun",
    "hy": "hye",
    "id": "ind",
    "is": "isl",
    "it": "ita",
    "ja": "jpn",
    "jw": "jav",
    "ka": "kat",
    "kk": "kaz",
    "km": "khm",
    "kn": "kan",
    "ko": "kor",
    "lo": "lao",
    "lt": "lit",
    "lv": "lvs",
    "mk": "mkd",
    "ml": "mal",
    "mn": "khk",
    "mr": "mar",
    "ms": "zlm",
    "mt": "mlt",
    "my": "mya",
    "ne": "npi",
    "nl": "nld",
    "nn": "nno",
    "no": "nob",
    "pa": "pan",
    "pl": "pol",
    "ps": "pbt",
    "pt": "por",
    "ro": "ron",
    "ru": "rus",
    "sd": "snd",
    "sk": "slk",
    "sl": "slv",
    "sn": "sna",
    "so": "som",
    "sr": "srp",
    "sv": "swe",
    "sw": "swh",
    "ta": "tam",
    "te": "tel",
    "tg": "tgk",
    "th": "tha",
    "tl": "tgl",
    "tr": "tur",
    "uk": "ukr",
    "ur": "urd",
    "uz": "uzn",
    "vi": "vie",
    "yo": "yor",
    "yue": "yue",
    "zh": "cmn",
}


@dataclass(frozen=True, slots=True)
class WrittenLanguages:
    """The languages that a text decoder writes.

    Attributes:
        name: Name of the model in error messages.
        ids: Ids of the language tokens, by SeamlessM4T's language code.
        start: Id of the token that begins every decoder input.
        end: Id of the token that ends a text.
    """

    name: str
    ids: Mapping[str, int]
    start: int
    end: int

    @classmethod
    def from_generation_config(cls, name: str, config: GenerationConfig) -> Self:
        """Read the languages from a generation config.

        Args:
            name: Name of the model in error messages.
            config: Contents of the model's generation_config.json.

        Raises:
            ZooError: If the config lists no languages.
        """
        ids = _ids(config, "text_decoder_lang_to_code_id")
        if not ids:
            raise ZooError(
                f"The generation_config.json of {name} lists no languages "
                "(text_decoder_lang_to_code_id); take it from the SeamlessM4T on the hub that "
                "this one comes from."
            )
        start = control_id(config, "decoder_start_token_id", name)
        return cls(name, ids, start, control_id(config, "eos_token_id", name))

    def opening(self, language: Language) -> list[int]:
        """Return the decoder ids before a text: start, language.

        Raises ZooError if the model does not write the language.
        """
        code = _code(language, self.ids, refusal=f"{self.name} does not write")
        return [self.start, self.ids[code]]

    @property
    def tokens(self) -> dict[str, int]:
        """Ids of the language tokens, by token (``__eng__``)."""
        return {f"__{code}__": number for code, number in self.ids.items()}


@dataclass(frozen=True, slots=True)
class SpokenLanguages:
    """The languages that a model speaks.

    Attributes:
        name: Name of the model in error messages.
        text: Language ids of the text decoder, by SeamlessM4T's language code.
        units: Language ids of the text-to-unit decoder, by SeamlessM4T's language code.
        voices: Language ids of the vocoder, by SeamlessM4T's language code.
    """

    name: str
    text: Mapping[str, int]
    units: Mapping[str, int]
    voices: Mapping[str, int]

    @classmethod
    def from_generation_config(cls, name: str, config: GenerationConfig) -> Self:
        """Read the languages from a generation config.

        Args:
            name: Name of the model in error messages.
            config: Contents of the model's generation_config.json.

        Raises:
            ZooError: If the config lists no languages for one of the three parts.
        """
        keys = ("text_decoder_lang_to_code_id", "t2u_lang_code_to_id", "vocoder_lang_code_to_id")
        maps = [_ids(config, key) for key in keys]
        if not all(maps):
            raise ZooError(
                f"The generation_config.json of {name} lists no spoken languages "
                f"({', '.join(keys)}); take it from the SeamlessM4T on the hub that this one comes "
                "from."
            )
        return cls(name, *maps)

    def code(self, language: Language) -> str:
        """Return SeamlessM4T's code of a language.

        Raises ZooError if the model does not speak the language.
        """
        spoken = self.text.keys() & self.units.keys() & self.voices.keys()
        return _code(language, spoken, refusal=f"{self.name} does not speak")


def _ids(config: GenerationConfig, key: str) -> Mapping[str, int]:
    """Return the ids that a generation config lists by language; empty if it lists none."""
    ids = config.to_dict().get(key)
    if not isinstance(ids, Mapping) or not all(type(number) is int for number in ids.values()):
        return {}
    return dict(ids)


def _code(language: Language, offered: Collection[str], *, refusal: str) -> str:
    """SeamlessM4T's code of a language. Raises ZooError if the code is not among ``offered``."""
    code = CODES.get(language.code)
    if code is None or code not in offered:
        choices = ", ".join(choice for choice, seamless in CODES.items() if seamless in offered)
        raise ZooError(f"{refusal} {language.name}; choose one of: {choices}.")
    return code
