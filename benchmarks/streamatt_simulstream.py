"""simulstream 1.0.0's StreamAtt on the Transformers of this environment.

Needs the extra ``interop``.

simulstream's own code runs. This adapter supplies the interface of
Transformers 4.48 on Transformers 5 and fixes three bugs of 1.0.0, so that both sides compute the
same; tests/benchmarks/test_streamatt_step.py shows the effect of each.
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


class Processor48:
    """A processor with the keyword of Transformers 4.48: ``audios``."""

    def __init__(self, folder: Path) -> None:
        processor = AutoProcessor.from_pretrained(folder)
        self.tokenizer = processor.tokenizer
        self.features = processor.feature_extractor

    def __call__(self, *, audios: np.ndarray, **options: Any) -> BatchFeature:
        """Return the features of audio samples (n,)."""
        return self.features(audios, **options)


class Simulstream(SeamlessStreamAtt):
    """A stream through simulstream's speech processor.

    Args:
        bugs: names of the bugs of 1.0.0 to keep. ``cut``: audio is cut at an eighth of the aligned
            frame, because the factor 8 is set after its use. ``rows``: a token of a beam search
            gets the attention of the beam that was in its row one step earlier. ``bins``: features
            are normalised after pairs were stacked, odd and even frames apart, although SeamlessM4T
            was trained on normalised mel bins.
        options: of simulstream's configuration, and ``words``, the length of the text history.
    """

    def __init__(self, *, bugs: Collection[str] = (), **options: Any) -> None:
        words = SimpleNamespace(type=FW, history_words=options.pop("words"))
        if "cut" not in bugs:
            options["audio_subsampling_factor"] = ENCODER_STRIDE
        super().__init__(SimpleNamespace(text_history=words, **options))
        self.bugs = bugs

    @classmethod
    def load_weights(cls, folder: Path) -> None:
        """Load the weights of all streams, with eager attention, which returns its weights."""
        cls.processor = Processor48(folder)
        cls.model = SeamlessM4TModel.from_pretrained(folder, attn_implementation="eager").eval()
        cls.device = torch.device("cpu")

    def _extract_new_hypo_attention_scores(self, new_hypo_len: int, gen_out: Any) -> Tensor:
        if "rows" not in self.bugs and self.num_beams > 1:
            gen_out = SimpleNamespace(
                cross_attentions=gen_out.cross_attentions, beam_indices=gen_out.beam_indices[:, 1:]
            )
        rows: Tensor = super()._extract_new_hypo_attention_scores(new_hypo_len, gen_out)
        return rows

    def mean_variance_normalization(self, features: np.ndarray) -> Tensor:
        """Normalise each mel bin of stacked features (frames, 2 bins)."""
        by_bin = (
            features.reshape(-1, features.shape[1] // STACKED)
            if "bins" not in self.bugs
            else features
        )
        normal: Tensor = super().mean_variance_normalization(by_bin)
        return normal.reshape(features.shape)
