"""Single turns of a stream, and a search whose turns never end."""

import torch
from torch import Tensor

from tests.fixtures.searches import ScoredSearch
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.backbones.infinisst.search import TurnSearchConfig
from zoo.base.types import Hypothesis, Request, SpeechChunk
from zoo.streaming.session import Session

GREEDY = TurnSearchConfig(beams=1, no_repeat_ngram=0, repetition_penalty=1.0, tokens_per_chunk=5)
END = 2


class NeverEnding(ScoredSearch):
    def scores(self, log_probs: Tensor) -> Tensor:
        return log_probs.index_fill(1, torch.tensor([END]), -torch.inf)


def turn(backbone: InfiniSST, session: Session, samples: Tensor, final: bool = False) -> Hypothesis:
    session.receive(SpeechChunk(samples, final=final))
    (hypothesis,) = backbone.decode([session], [Request()], frozenset())
    return hypothesis
