"""What to say after all kept speech: the search of all backbones, and what its repetition controls look at."""

from dataclasses import dataclass
from typing import Literal

import zoo.backbones.common.search as shared
from zoo.backbones.common.search import Context
from zoo.errors import ZooError


@dataclass(frozen=True, slots=True)
class SearchConfig(shared.SearchConfig):
    """How an answer is generated (InfiniSST, section 4.3: beam 4 for all methods).

    repetition: text: the controls look at what was written and is kept, and at the answer. prompt (released code): at
    all that stands before, too: the penalty is also on the instruction's words and on the end of turn.
    """

    beams: int = 4
    no_repeat_ngram: int = 5
    repetition_penalty: float = 1.2
    repetition: Literal["text", "prompt"] = "text"

    def __post_init__(self) -> None:
        """Raises ZooError for a search that could say nothing or would never end."""
        shared.SearchConfig.__post_init__(self)
        if self.repetition == "prompt" and self.no_repeat_ngram == 1:
            raise ZooError(
                "A search with repetition=prompt needs a no_repeat_ngram other than 1: no text could end."
            )

    def here(self, context: Context, answer: list[int]) -> list[int]:
        """Ids that the repetition penalty is on and that n-grams may begin in."""
        return (context.earlier if self.repetition == "text" else context.prompt) + answer
