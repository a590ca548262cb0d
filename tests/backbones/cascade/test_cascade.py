"""Transcripts, prompts and hypotheses of a batch of streams, against the search of Transformers."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import GenerationConfig

from tests.backbones.cascade.conftest import SHAPE, LoudnessTranscriber, Make
from zoo.backbones.cascade.cascade import Cascade
from zoo.backbones.cascade.prompt import PromptFields, Template
from zoo.base.types import Capability, Cut, Hypothesis, Request, Task
from zoo.streaming.session import Session, empty_token_ids

Live = Callable[..., Session]
PLAIN = frozenset[Capability]()
LEVELS = ([1, 2, 3, 4], [5, 6], [7, 8, 9, 1, 2, 3, 4], [3])
PREFIXES = ("Julia hat", "", "Wir fahren mit dem", "Das")


def theirs(backbone: Cascade, prompt: list[int], limit: int) -> list[int]:
    """Tokens of ``generate`` without the end token."""
    ids = backbone.translator.generate(
        torch.tensor([prompt]),
        generation_config=GenerationConfig(
            max_new_tokens=limit,
            do_sample=False,
            suppress_tokens=backbone.never,
            pad_token_id=0,
            eos_token_id=backbone.prompt.end,
        ),
    )
    return [token for token in ids[0, len(prompt) :].tolist() if token != backbone.prompt.end]


def translated(backbone: Cascade, sessions: list[Session], **options: object) -> list[Hypothesis]:
    requests = [Request(**options) for _ in sessions]  # type: ignore[arg-type]
    return backbone.decode(sessions, requests, PLAIN)


PHI_4_MINI = {  # what its config has beside Phi-3's
    "rope_parameters": {
        "rope_type": "longrope",
        "rope_theta": 10_000.0,
        "partial_rotary_factor": 0.5,
        "short_factor": [1.0],
        "long_factor": [3.0],
    },
    "sliding_window": 262_144,
    "original_max_position_embeddings": 4096,
    "max_position_embeddings": 131_072,
}


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        *((kind, {}) for kind in ("phi3", "llama", "qwen2", "qwen3", "mistral")),
        ("phi3", PHI_4_MINI),
    ],
)
def test_greedy_words_are_those_of_transformers(
    kind: str, more: dict[str, object], make: Make, live: Live
) -> None:
    backbone = make(config={"model_type": kind, **SHAPE, **more}, prefix_place="both")
    for levels, prefix in zip(LEVELS, PREFIXES, strict=True):
        session = live(backbone, levels, prefix)
        [hypothesis] = translated(backbone, [session])
        source = backbone.transcriber.text(levels)
        prompt = backbone.prompt.opening(
            PromptFields(
                source=session.source_language,
                target=session.target_language,
                transcript=source,
                translation=prefix,
            )
        )
        assert hypothesis.token_ids.tolist() == theirs(
            backbone, prompt + session.prefix_ids.tolist(), backbone.max_tokens
        )
        assert hypothesis.prefix_length == session.prefix_ids.numel()


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("prefix_place", ["prompt", "answer", "both"])
def test_a_batch_equals_its_streams_alone(
    prefix_place: str, beams: int, make: Make, live: Live
) -> None:
    backbone = make(prefix_place=prefix_place)
    backbone.search = backbone.search.__class__(beams=beams)
    pairs = list(zip(LEVELS, PREFIXES, strict=True))
    tasks = [Task.TRANSLATION, Task.TRANSCRIPTION, Task.TRANSLATION, Task.TRANSLATION]
    requests = [Request(task=task) for task in tasks]
    alone = [
        backbone.decode([live(backbone, *pair)], [request], PLAIN)[0]
        for pair, request in zip(pairs, requests, strict=True)
    ]
    batch = backbone.decode([live(backbone, *pair) for pair in pairs], requests, PLAIN)
    assert len({tuple(one.token_ids.tolist()) for one in alone}) >= 3
    for one, other in zip(alone, batch, strict=True):
        assert one.token_ids.tolist() == other.token_ids.tolist()
        assert (one.finished, one.truncated, one.transcript) == (
            other.finished,
            other.truncated,
            other.transcript,
        )
        assert one.word_starts.tolist() == other.word_starts.tolist()


def test_transcripts_are_the_transcribers(make: Make, live: Live) -> None:
    backbone = make()
    [answer] = translated(backbone, [live(backbone, [1, 2], "Julia")], task=Task.TRANSCRIPTION)
    assert (answer.transcript, answer.token_ids.tolist(), answer.prefix_length) == (
        "Julia spent",
        [1, 2],
        0,
    )


def test_audio_is_transcribed_once_per_chunk_and_only_up_to_its_limit(
    make: Make, live: Live
) -> None:
    backbone = make()
    session = live(backbone, [1, 2, 3])
    for request in (
        Request(task=Task.TRANSCRIPTION),
        Request(),
        Request(audio_end=2),
        Request(audio_end=2),
    ):
        backbone.decode([session], [request], PLAIN)
    assert isinstance(backbone.transcriber, LoudnessTranscriber)
    assert backbone.transcriber.looks == [("talk", 4800), ("talk", 3200)]


def test_a_given_transcript_is_translated_instead(make: Make, live: Live) -> None:
    backbone = make()
    session = live(backbone, [1, 2, 3])
    [early] = translated(backbone, [session], task=Task.TRANSCRIPTION, audio_end=1)
    [given] = translated(backbone, [session], transcript_ids=early.token_ids)
    [expected] = translated(backbone, [live(backbone, [1])])
    [whole] = translated(backbone, [live(backbone, [1, 2, 3])])
    assert given.token_ids.tolist() == expected.token_ids.tolist() != whole.token_ids.tolist()
    with pytest.raises(ValueError, match="not answered"):
        translated(backbone, [session], transcript_ids=torch.tensor([9, 9]))


def test_without_spoken_words_the_text_is_empty(make: Make, live: Live) -> None:
    backbone = make()
    silent, spoken = live(backbone, [0, 0], "Julia"), live(backbone, [4])
    [silence, words] = translated(backbone, [silent, spoken])
    assert (silence.num_new_tokens, silence.finished, silence.prefix_length) == (
        0,
        True,
        silent.prefix_ids.numel(),
    )
    assert words.num_new_tokens
    assert translated(backbone, [silent], transcript_ids=empty_token_ids())[0].num_new_tokens == 0


def test_audio_that_goes_is_forgotten_by_both(make: Make, live: Live) -> None:
    backbone = make()
    session = live(backbone, [1, 2, 3])
    [answer] = translated(backbone, [session], task=Task.TRANSCRIPTION)
    cut = Cut(tokens=0, frames=2)
    backbone.forget(session, cut)
    session.forget(cut)
    assert isinstance(backbone.transcriber, LoudnessTranscriber)
    assert backbone.transcriber.cuts == [cut]
    assert translated(backbone, [session], task=Task.TRANSCRIPTION)[0].transcript == "the"
    with pytest.raises(ValueError, match="not answered"):
        translated(backbone, [session], transcript_ids=answer.token_ids)


def test_the_transcriber_receives_the_source_or_the_target_language(make: Make, live: Live) -> None:
    assert live(make(), [1]).backbone_state.transcribing.backbone_state == ["en", "en"]
    assert live(
        make(transcriber_target="target"), [1]
    ).backbone_state.transcribing.backbone_state == ["en", "de"]


def forcing(backbone: Cascade, answer: str) -> None:
    """Makes the translator generate ``answer`` for any prompt."""
    ids = [*backbone.prompt.ids(answer), backbone.prompt.end]

    def next_scores(hidden: torch.Tensor) -> torch.Tensor:
        scores = torch.zeros(
            *hidden.shape[:-1], backbone.translator.config.vocab_size, dtype=hidden.dtype
        )
        scores[..., ids[next_scores.place]] = 9.0  # type: ignore[attr-defined]
        next_scores.place += 1  # type: ignore[attr-defined]
        return scores

    next_scores.place = 0  # type: ignore[attr-defined]
    backbone.translator.get_output_embeddings = lambda: next_scores  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("prefix", "answer", "text", "words"),
    [
        ("Julia hat", "das Geld", "Julia hat das Geld", 4),
        ("Julia hat", " das Geld", "Julia hat das Geld", 4),
        ("Julia", ", das Geld", "Julia, das Geld", 3),
        ("", "das Geld", "das Geld", 2),
        ("Wir", "über", "Wir über", 2),
    ],
)
def test_an_answer_to_the_prompt_goes_on_with_the_text(
    prefix: str, answer: str, text: str, words: int, make: Make, live: Live
) -> None:
    backbone = make()
    session = live(backbone, [1, 2], prefix)
    forcing(backbone, answer)
    [hypothesis] = translated(backbone, [session])
    assert backbone.text([*session.prefix_ids.tolist(), *hypothesis.token_ids.tolist()]) == text
    assert int(hypothesis.word_starts.sum()) == words
    assert hypothesis.finished
    assert not hypothesis.truncated


def test_a_forced_answer_goes_on_by_itself(make: Make, live: Live) -> None:
    backbone = make(prefix_place="answer")
    session = live(backbone, [1, 2], "Ju")
    forcing(backbone, "lia hat")
    assert backbone.text(translated(backbone, [session])[0].token_ids.tolist()) == "lia hat"


def test_no_more_words_than_were_asked_for(make: Make, live: Live) -> None:
    backbone = make()
    session = live(backbone, [1, 2], "Julia")
    forcing(backbone, "hat das Geld ausgegeben.")
    [hypothesis] = translated(backbone, [session], max_words=2)
    assert hypothesis.tokens_in_first_words(2) == hypothesis.num_new_tokens - 1
    assert (
        backbone.text(hypothesis.token_ids[: hypothesis.tokens_in_first_words(2)].tolist())
        == " hat das"
    )


def test_every_end_token_of_the_translator_ends_an_answer(make: Make, live: Live) -> None:
    """As published, Phi-4-mini has two; the template has the first."""
    others = make().tokenizer.convert_tokens_to_ids(["<|endoftext|>"])
    backbone = make(config={"model_type": "phi3", **SHAPE, "eos_token_id": others})
    forcing(backbone, "das Geld<|endoftext|> ausgegeben")
    [hypothesis] = translated(backbone, [live(backbone, [1, 2])])
    assert backbone.text(hypothesis.token_ids.tolist()) == "das Geld"
    assert not hypothesis.truncated


def test_an_answer_that_has_no_end_is_truncated(make: Make, live: Live) -> None:
    backbone = make(max_tokens=3)
    forcing(backbone, "das Geld ausgegeben und noch viel mehr")
    [hypothesis] = translated(backbone, [live(backbone, [1, 2], "Julia hat")])
    assert (hypothesis.finished, hypothesis.truncated) == (True, True)


def test_saved_and_loaded_it_decodes_the_same_tokens(
    make: Make, live: Live, tmp_path: Path
) -> None:
    backbone = make()
    backbone.save(tmp_path)
    again = make(name=str(tmp_path), config=None, tokenizer=None, seed=1)
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".safetensors") == [
        "model.safetensors"
    ]
    for levels in LEVELS:
        [one], [other] = (
            translated(each, [live(each, levels, "Julia")]) for each in (backbone, again)
        )
        assert one.token_ids.tolist() == other.token_ids.tolist()


def test_tied_weights_are_saved_in_another_type(make: Make, tmp_path: Path) -> None:
    backbone = make(
        config={
            "model_type": "phi3",
            "tie_word_embeddings": True,
            "hidden_size": 16,
            "intermediate_size": 24,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
        }
    )
    backbone.save(tmp_path, torch.bfloat16)
    again = make(name=str(tmp_path), tokenizer=None)
    for (name, one), (_, other) in zip(
        backbone.translator.named_parameters(), again.translator.named_parameters(), strict=True
    ):
        assert torch.equal(one.to(torch.bfloat16), other.to(torch.bfloat16)), name
    assert backbone.translator.dtype == torch.float64
    assert again.translator.lm_head.weight is again.translator.model.embed_tokens.weight


def test_another_template(make: Make, live: Live) -> None:
    backbone = make(template=Template(instruction="{transcript}"), prefix_place="answer")
    assert translated(backbone, [live(backbone, [1])])[0].num_new_tokens
