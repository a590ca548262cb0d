"""The contract of translators of texts."""

from collections.abc import Sequence
from typing import Protocol

from zoo.alignment.base import Loadable
from zoo.base.languages import Language


class Translator(Loadable, Protocol):
    """A translator of texts; its constructor reads no files."""

    def translate(
        self, texts: Sequence[str], *, source: Language, target: Language
    ) -> list[str | None]:
        """Return the translation of each text; None if the translator did not complete it.

        Args:
            texts: texts of any length.
            source: language of the texts.
            target: language of the translations.
        """
