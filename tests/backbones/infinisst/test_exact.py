"""The fast form equals the paper's: streams, keys and beams against ``plain.py``, without the zoo.

In double precision throughout: Llama's own norms compute in float32, so these models get norms
that compute in double precision.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from tests.backbones.infinisst import plain
from zoo.backbones.decoding.causal.branches import CausalBranches, empty_cache
from zoo.backbones.decoding.causal.decoder import rotary_of
from zoo.backbones.decoding.continuation import Answer
from zoo.backbones.encoders.wav2vec2.encoder import CHUNK_SAMPLES, EncoderState
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.backbones.infinisst.search import TurnSearchConfig
from zoo.backbones.infinisst.window import WindowConfig, WindowState, append_turn, slide
from zoo.base.types import Request, SpeechChunk
from zoo.streaming.session import Session
from zoo.systems.base import StreamingSystem

Make = Callable[..., InfiniSST]
MakeSystem = Callable[..., StreamingSystem]
Noise = Callable[..., Tensor]

END, INSTRUCTION = 2, 5
DECODER = {
    "model_type": "llama",
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
TURNS = 1000


def exact(backbone: InfiniSST) -> InfiniSST:
    """With norms in the type of their input."""
    model = backbone.decoder.model
    for owner in [model, *model.layers]:
        for name, norm in list(owner.named_children()):
            if "norm" in name:
                precise = nn.RMSNorm(
                    norm.weight.numel(), eps=norm.variance_epsilon, dtype=norm.weight.dtype
                )
                precise.load_state_dict(norm.state_dict())
                setattr(owner, name, precise)
    return backbone


# ---- whole streams


def controls(on: bool) -> dict[str, float]:
    return (
        {"no_repeat_ngram": 2, "repetition_penalty": 1.5}
        if on
        else {"no_repeat_ngram": 0, "repetition_penalty": 1.0}
    )


def plainly(
    backbone: InfiniSST, session: Session, signal: Tensor, multiplier: int
) -> tuple[list[list[int]], object]:
    """Ids of every turn of a talk."""
    search, prompt, embed = (
        backbone.search,
        backbone.prompt,
        backbone.decoder.get_input_embeddings(),
    )
    instruction = prompt.instruction(
        source=session.source_language, target=session.target_language, multiplier=multiplier
    )
    stream = plain.PlainStream(
        plain.PlainDecoder(backbone.decoder, len(instruction)),
        plain.PlainSearch(
            embed,
            beams=search.beams,
            limit=search.tokens_per_chunk * multiplier,
            end=prompt.end_of_turn,
            penalty=search.repetition_penalty,
            ngram=search.no_repeat_ngram,
        ),
        window=backbone.window.size,
        unit=backbone.window.unit,
    )
    speech = backbone.adapter(backbone.encoder(signal[None].double(), multiplier).hidden)[0]
    answers, opening = [], instruction
    for block in speech.split(12 * multiplier):
        ids, frames = opening + prompt.turn(multiplier), iter(block)
        answers.append(
            stream.turn(
                [next(frames) if token == prompt.speech else embed.weight[token] for token in ids]
            )
        )
        opening = []
    return answers, stream


@torch.inference_mode()
@pytest.mark.parametrize(
    ("unit", "beams", "on", "multiplier"),
    [
        ("tokens", 4, True, 1),
        ("turns", 4, False, 1),
        ("tokens", 1, True, 2),
        ("turns", 3, True, 2),
        ("tokens", 3, False, 1),
    ],
)
def test_talks_in_lockstep_equal_plain_streams(
    make: Make,
    make_system: MakeSystem,
    noise: Noise,
    unit: str,
    beams: int,
    on: bool,
    multiplier: int,
) -> None:
    search = TurnSearchConfig(beams=beams, tokens_per_chunk=5, **controls(on))
    backbone = exact(
        make(seed=7, end_scale=8.0, search=search, window=WindowConfig(size=45, unit=unit))
    )
    system, turns = make_system(backbone, multiplier), 10
    sessions = [system.open(f"talk {index}") for index in range(3)]
    signals = [noise(0.96 * multiplier * turns, seed) for seed in range(3)]
    turns_of_streams: list[list[list[int]]] = [[] for _ in sessions]
    for begin in range(0, turns * multiplier * CHUNK_SAMPLES, multiplier * CHUNK_SAMPLES):
        # the third is a turn behind: caches of different lengths
        live = sessions if begin else sessions[:2]
        for index, session in enumerate(live):
            late = begin - multiplier * CHUNK_SAMPLES * (index == 2)
            session.receive(SpeechChunk(signals[index][late : late + multiplier * CHUNK_SAMPLES]))
        hypotheses = backbone.decode(live, [Request()] * len(live), frozenset())
        for answers, hypothesis in zip(turns_of_streams, hypotheses, strict=False):
            answers.append(hypothesis.token_ids.tolist())
    lengths = set()
    for session, signal, answers in zip(sessions, signals, turns_of_streams, strict=True):
        audio = signal[: len(answers) * multiplier * CHUNK_SAMPLES]
        expected, stream = plainly(backbone, session, audio, multiplier)
        assert answers == expected
        assert session.backbone_state.dropped > 45
        assert_same_cache(session.backbone_state, stream.decoder)
        lengths |= {len(answer) for answer in answers}
    assert len(lengths) > 1


def assert_same_cache(state: WindowState, oracle: object) -> None:
    """Values are equal; keys are the oracle's, rotated to the positions of the fast form."""
    for layer, kept in enumerate(oracle.kept):
        keys, values = (torch.stack(part, dim=1) for part in zip(*kept, strict=True))
        places = state.dropped + torch.arange(state.num_cached)
        torch.testing.assert_close(state.cache[layer, 1], values, rtol=0, atol=1e-9)
        torch.testing.assert_close(
            state.cache[layer, 0], plain.turned(keys, places[:, None]), rtol=0, atol=1e-9
        )


# ---- a thousand evictions


def new_state(backbone: InfiniSST) -> WindowState:
    encoder = EncoderState(left=torch.zeros(0), cache=torch.zeros(0))
    return WindowState(
        encoder=encoder, cache=empty_cache(backbone.decoder), instruction=INSTRUCTION
    )


def dialogue() -> list[list[int]]:
    """Random prompts, the first with an instruction; every answer is empty."""
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randint(8, 264, (1 + INSTRUCTION * (turn == 0),), generator=generator).tolist()
        for turn in range(TURNS + 10)
    ]


@torch.inference_mode()
def fast_form(
    backbone: InfiniSST,
    window: WindowConfig,
    move: Callable[..., None] = slide,
    turns: int = TURNS + 10,
) -> Tensor:
    """(turns, vocabulary) log-probabilities after each prompt; the window slides by ``move``."""
    state, embed, seen = new_state(backbone), backbone.decoder.get_input_embeddings(), []
    for prompt in dialogue()[:turns]:
        move(state, window, backbone.decoder)
        turn = CausalBranches(
            backbone.decoder, [state], [embed(torch.tensor(state.pending + prompt))]
        )
        seen.append(turn.log_probs[0])
        append_turn(state, turn.prefilled(0), Answer([], True, turn.generated(0)), end=END)
    assert state.dropped > turns
    return torch.stack(seen)


@torch.inference_mode()
def paper_form(backbone: InfiniSST, window: WindowConfig) -> Tensor:
    """The same with keys kept unrotated and all of them rotated at every position."""
    decoder, embed, seen = (
        plain.PlainDecoder(backbone.decoder, INSTRUCTION),
        backbone.decoder.get_input_embeddings(),
        [],
    )
    turns: list[int] = []
    for index, prompt in enumerate(dialogue()):
        if window.unit == "turns" and len(decoder.kept[0]) > window.size:
            turns.pop(0)
        decoder.slide(window.size if window.unit == "tokens" else sum(turns))
        for token in [END] * (index > 0) + prompt:
            log_probs = decoder.feed(embed(torch.tensor(token)))
        turns.append(2 if index else len(prompt) - INSTRUCTION)
        seen.append(log_probs)
    return torch.stack(seen)


TOKENS, WHOLE_TURNS = WindowConfig(size=16), WindowConfig(size=21, unit="turns")
WIDE = DECODER | {"hidden_size": 64, "intermediate_size": 128, "initializer_range": 0.1}


@pytest.fixture(scope="module")
def rounded(make: Make) -> InfiniSST:
    return make(decoder=WIDE, dtype="bfloat16", end_scale=1.0)


@pytest.fixture(scope="module")
def precise(make: Make, rounded: InfiniSST) -> InfiniSST:
    """With the weights of ``rounded``."""
    backbone = exact(make(decoder=WIDE, end_scale=1.0))
    backbone.decoder.load_state_dict(rounded.decoder.state_dict())
    return backbone


@pytest.fixture(scope="module")
def truth(precise: InfiniSST) -> Tensor:
    """The paper's form in double precision; it takes a while."""
    return paper_form(precise, TOKENS)


def test_a_thousand_evictions_in_double_precision(precise: InfiniSST, truth: Tensor) -> None:
    torch.testing.assert_close(fast_form(precise, TOKENS), truth, rtol=0, atol=1e-9)


def test_a_thousand_evictions_of_whole_turns(make: Make) -> None:
    backbone = exact(make())
    paper = paper_form(backbone, WHOLE_TURNS)
    torch.testing.assert_close(fast_form(backbone, WHOLE_TURNS), paper, rtol=0, atol=1e-9)


def leave_as_is(state: WindowState, config: WindowConfig, decoder: PreTrainedModel) -> None:
    """Not the zoo's: the instruction's keys stay where they were."""
    slide(state, config, decoder)
    if state.anchor is not None:
        state.cache[:, 0, :, : state.instruction] = state.anchor


def test_an_instruction_that_does_not_turn_is_noticed(make: Make) -> None:
    backbone = exact(make())
    right, wrong = (fast_form(backbone, TOKENS, move, turns=40) for move in (slide, leave_as_is))
    assert torch.equal(right[:4], wrong[:4])
    assert (right[-1] - wrong[-1]).abs().max() > 0.01


def turn_the_turned(state: WindowState, config: WindowConfig, decoder: PreTrainedModel) -> None:
    """Not the zoo's: the instruction's keys turn from where they are, not from their first copy."""
    before, keys = state.dropped, state.cache[:, 0, :, : state.instruction].clone()
    slide(state, config, decoder)
    state.cache[:, 0, :, : state.instruction] = rotary_of(decoder).shift(
        keys, state.dropped - before
    )


def test_a_thousand_evictions_in_bfloat16(rounded: InfiniSST, truth: Tensor) -> None:
    """Against double precision, the fast form's error is as small as the paper's and does not grow.

    Measured mean errors of log-probabilities: fast 0.004, paper 0.004, turning the turned 0.04.
    """

    def error(log_probs: Tensor, first: int) -> float:
        return float((log_probs.double() - truth)[first : first + 200].abs().mean())

    fast, late = fast_form(rounded, TOKENS), TURNS - 200
    assert error(fast, late) < 1.1 * error(paper_form(rounded, TOKENS), late)
    assert error(fast, late) < 1.1 * error(fast, 0)
    assert error(fast_form(rounded, TOKENS, turn_the_turned), late) > 5 * error(fast, late)
