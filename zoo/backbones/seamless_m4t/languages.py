"""Languages of SeamlessM4T: its codes, and their ids in the text decoder, the unit decoder and the
vocoder.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from transformers import GenerationConfig

from zoo.errors import ZooError
from zoo.languages import Language

CODES = {  # ours and SeamlessM4T's
    "ar": "arb",
    "ca": "cat",
    "cs": "ces",
    "de": "deu",
    "en": "eng",
    "es": "spa",
    "fa": "pes",
    "fr": "fra",
    "it": "ita",
    "ja": "jpn",
    "ko": "kor",
    "nl": "nld",
    "pt": "por",
    "ro": "ron",
    "ru": "rus",
    "th": "tha",
    "tr": "tur",
    "vi": "vie",
    "zh": "cmn",
}


@dataclass(frozen=True, slots=True)
class WrittenLanguages:
    """Languages that a text decoder writes.

    Attributes:
        name: Of the model, for messages.
        ids: Ids of languages by SeamlessM4T's code.
        start: Id that begins every decoder input.
        end: Id that ends a text.
    """

    name: str
    ids: Mapping[str, int]
    start: int
    end: int

    @classmethod
    def from_generation_config(cls, name: str, config: GenerationConfig) -> Self:
        """Read generation_config.json. Raises ZooError where it lists no languages."""
        ids = config.to_dict().get("text_decoder_lang_to_code_id") or {}
        if not ids:
            raise ZooError(
                f"The generation_config.json of {name} lists no languages "
                "(text_decoder_lang_to_code_id); take it from the SeamlessM4T on the hub that "
                "this one comes from."
            )
        return cls(name, ids, int(config.decoder_start_token_id), int(config.eos_token_id))

    def opening(self, language: Language) -> list[int]:
        """Decoder ids before a text.

        Raises ZooError for a language that the model does not write.
        """
        code = CODES.get(language.code)
        if code is None or code not in self.ids:
            choices = ", ".join(ours for ours, theirs in CODES.items() if theirs in self.ids)
            raise ZooError(f"{self.name} does not write {language.name}; choose one of: {choices}.")
        return [self.start, self.ids[code]]

    @property
    def tokens(self) -> dict[str, int]:
        """Ids of the languages' tokens."""
        return {f"__{code}__": number for code, number in self.ids.items()}


@dataclass(frozen=True, slots=True)
class SpokenLanguages:
    """Languages that a model speaks, by SeamlessM4T's code.

    Attributes:
        name: Of the model, for messages.
        text: Ids in the text decoder.
        units: Ids in the text-to-unit decoder.
        voices: Ids in the vocoder.
    """

    name: str
    text: Mapping[str, int]
    units: Mapping[str, int]
    voices: Mapping[str, int]

    @classmethod
    def from_generation_config(cls, name: str, config: GenerationConfig) -> Self:
        """Read generation_config.json. Raises ZooError where it lists no spoken languages."""
        keys = ("text_decoder_lang_to_code_id", "t2u_lang_code_to_id", "vocoder_lang_code_to_id")
        maps = [config.to_dict().get(key) or {} for key in keys]
        if not all(maps):
            raise ZooError(
                f"The generation_config.json of {name} lists no spoken languages "
                f"({', '.join(keys)}); take it from the SeamlessM4T on the hub that this one comes "
                "from."
            )
        return cls(name, *maps)

    def code(self, language: Language) -> str:
        """SeamlessM4T's code of a language.

        Raises ZooError for one that the model does not speak.
        """
        spoken = self.text.keys() & self.units.keys() & self.voices.keys()
        code = CODES.get(language.code)
        if code is None or code not in spoken:
            choices = ", ".join(ours for ours, theirs in CODES.items() if theirs in spoken)
            raise ZooError(f"{self.name} does not speak {language.name}; choose one of: {choices}.")
        return code
