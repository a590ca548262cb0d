"""StreamAtt as simulstream 1.0.0 has it, on the Transformers of this environment.

Needs the extra ``interop``.

Its own code runs; what it asks of Transformers 4.48 is answered here by Transformers 5, and three
mistakes of 1.0.0 are mended, so that both sides do the same.
tests/benchmarks/test_streamatt_step.py shows what each of them changes.
"""

from collections.abc import Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from simulstream.server.speech_processors.seamless_streamatt import SeamlessStreamAtt
from torch import Tensor
from transformers import AutoProcessor, BatchFeature, SeamlessM4TModel

ENCODER_STRIDE = 8  # history frames (20 ms) per encoder frame
STACKED = 2  # features of 10 ms per history frame
FW = "simulstream.server.speech_processors.base_streamatt.FixedWordsTextHistory"


class Hearing:
    """Their processor: features under the keyword and the option of Transformers 4.48."""

    def __init__(self, folder: Path) -> None:
        processor = AutoProcessor.from_pretrained(folder)
        self.tokenizer = processor.tokenizer
        self.features = processor.feature_extractor

    def __call__(self, *, audios: np.ndarray, **options: Any) -> BatchFeature:
        return self.features(audios, **options)


class Simulstream(SeamlessStreamAtt):
    """One stream through their speech processor. mistakes: which of its own it still makes.

    cut: audio is cut at an eighth of the aligned frame, for the factor 8 is set after it was used.
    rows: a token of a beam search gets the attention of whichever beam stood in its row one step
    earlier. bins: features are normalised after every two were put side by side, odd and even ones
    apart, where SeamlessM4T was trained on whole mel bins.
    """

    def __init__(self, *, mistakes: Collection[str] = (), **options: Any) -> None:
        words = SimpleNamespace(type=FW, history_words=options.pop("words"))
        if "cut" not in mistakes:
            options["audio_subsampling_factor"] = ENCODER_STRIDE
        super().__init__(SimpleNamespace(text_history=words, **options))
        self.mistakes = mistakes

    @classmethod
    def read(cls, folder: Path) -> None:
        """Weights for all streams.

        Attention is computed in full, else Transformers 5 does not hand it out.
        """
        cls.processor = Hearing(folder)
        cls.model = SeamlessM4TModel.from_pretrained(folder, attn_implementation="eager").eval()
        cls.device = torch.device("cpu")

    def _extract_new_hypo_attention_scores(self, new_hypo_len: int, gen_out: Any) -> Tensor:
        if "rows" not in self.mistakes and self.num_beams > 1:
            gen_out = SimpleNamespace(
                cross_attentions=gen_out.cross_attentions, beam_indices=gen_out.beam_indices[:, 1:]
            )
        rows: Tensor = super()._extract_new_hypo_attention_scores(new_hypo_len, gen_out)
        return rows

    def mean_variance_normalization(self, features: np.ndarray) -> Tensor:
        by_bin = (
            features.reshape(-1, features.shape[1] // STACKED)
            if "bins" not in self.mistakes
            else features
        )
        normal: Tensor = super().mean_variance_normalization(by_bin)
        return normal.reshape(features.shape)
