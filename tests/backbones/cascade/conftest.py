"""A transcriber of loudness, and tiny randomly initialised text LLMs in double precision."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from tests.fixtures.shapes import text_shape
from tests.fixtures.streams import new_session
from zoo.backbones.base import Backbone
from zoo.backbones.cascade.cascade import Cascade
from zoo.backbones.cascade.prompt import Template
from zoo.base.types import Capability, Cut, Hypothesis, Request, Task
from zoo.streaming.session import Session

TEXTS = (
    (
        "Julia spent the money. Is it a long way to the sea? "
        "The sea is far away; we go there by train."
    ),
    (
        "Julia hat das Geld ausgegeben. Ist es weit bis zum Meer? "
        "Das Meer ist weit weg; wir fahren mit dem Zug."
    ),
    "Translate the English text to German based on the given German translation.",
)
WORDS = ("Julia", "spent", "the", "money", "we", "go", "there", "by", "train")
SHAPE = text_shape(layers=3, tie_word_embeddings=False)
HEADS = {"head_dim": 8, "num_attention_heads": 4, "num_key_value_heads": 2}
WINDOW = 7  # positions; prompts are longer
GEMMA = HEADS | {
    "sliding_window": WINDOW,
    "query_pre_attn_scalar": 8,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    "tie_word_embeddings": True,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
MIXTURE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 12}
TRANSLATORS: Mapping[str, Mapping[str, Any]] = {
    "qwen3": HEADS,
    "qwen3_moe": HEADS | MIXTURE,
    "gemma3_text": GEMMA,
}


class LoudnessTranscriber(Backbone):
    """Transcribes a word per 100 ms by its loudness and records its requests in ``looks``."""

    exposes: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.TRANSCRIPT, Capability.AUDIO_TRIMMING}
    )
    frame_samples = 1600

    def __init__(self) -> None:
        super().__init__()
        self.looks: list[tuple[str, int]] = []
        self.cuts: list[Cut] = []

    def open(self, session: Session) -> list[str]:
        return [session.source_language.code, session.target_language.code]

    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        answers = []
        for session, request in zip(sessions, requests, strict=True):
            assert request.task is Task.TRANSCRIPTION
            assert not session.prefix_ids.numel()
            wave = session.visible_audio(request.audio_end)
            self.looks.append((session.talk, len(wave)))
            loud = [int(frame.abs().mean() * 10) for frame in wave.split(self.frame_samples)]
            ids = torch.tensor([level for level in loud if level], dtype=torch.long)
            text = " ".join(WORDS[level - 1] for level in ids.tolist())
            answers.append(
                Hypothesis(
                    ids, torch.ones(len(ids), dtype=torch.bool), finished=True, transcript=text
                )
            )
        return answers

    def forget(self, session: Session, cut: Cut) -> None:
        assert session.audio.numel()
        self.cuts.append(cut)

    def text(self, token_ids: list[int]) -> str:
        return " ".join(WORDS[level - 1] for level in token_ids)


class TimingTranscriber(LoudnessTranscriber):
    """Aligns each word with its 100 ms."""

    exposes = LoudnessTranscriber.exposes | {Capability.ALIGNMENT}

    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        answers = super().decode(sessions, requests, needs)
        if Capability.ALIGNMENT not in needs:
            return answers
        waves = [
            session.visible_audio(request.audio_end)
            for session, request in zip(sessions, requests, strict=True)
        ]
        means = [wave.unflatten(0, (-1, self.frame_samples)).abs().mean(dim=1) for wave in waves]
        return [
            replace(answer, alignment=torch.eye(len(mean))[mean >= 0.1])
            for answer, mean in zip(answers, means, strict=True)
        ]


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As Phi-4-mini's: bytes, words begin with a space, and a text alone without one."""
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", *Template().tokens]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>").save_pretrained(
        folder
    )
    return folder


Make = Callable[..., Cascade]


@pytest.fixture(scope="session")
def make(tokenizer_folder: Path) -> Make:
    """Builds a cascade on ``LoudnessTranscriber``.

    With a large ``end_scale`` hypotheses end early.
    """

    def build(*, seed: int = 0, end_scale: float = 3.0, **options: object) -> Cascade:
        torch.manual_seed(seed)
        settings: dict[str, object] = {
            "transcriber": LoudnessTranscriber(),
            "name": None,
            "config": {"model_type": "phi3", **SHAPE},
            "tokenizer": str(tokenizer_folder),
            "max_tokens": 12,
            "dtype": "float64",
        } | options
        backbone = Cascade(**settings)  # type: ignore[arg-type]
        backbone.load()
        if backbone.name is None:
            with torch.no_grad():
                backbone.translator.lm_head.weight[backbone.prompt.end] *= end_scale
        return backbone

    return build


@pytest.fixture(scope="session")
def live() -> Callable[..., Session]:
    """Builds a session with text that has received levels of loudness.

    ``LoudnessTranscriber`` maps each level to a word.
    """

    def open_session(
        backbone: Cascade, levels: Sequence[int], prefix: str = "", talk: str = "talk"
    ) -> Session:
        frames = [torch.full((backbone.frame_samples,), level / 10 + 0.05) for level in levels]
        prefix_ids = backbone.prompt.ids(prefix)
        return new_session(backbone, torch.cat(frames), prefix=prefix_ids, talk=talk)

    return open_session
