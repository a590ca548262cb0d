"""Options of the paper's ablations and of the released code, in streams."""

import dataclasses
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.backbones.infinisst.turns import END, NeverEnding, turn
from tests.fixtures.searches import ScoredSearch
from zoo.backbones.architectures.speech_llm.prompt import LEAN
from zoo.backbones.encoders.wav2vec2.encoder import CHUNK_SAMPLES
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.backbones.infinisst.search import TurnSearchConfig
from zoo.backbones.infinisst.window import WindowConfig
from zoo.backbones.text.vocabulary import containing
from zoo.base.errors import ZooError
from zoo.base.types import Instance, SpeechChunk
from zoo.systems.base import StreamingSystem

Make = Callable[..., InfiniSST]
Noise = Callable[..., Tensor]
MakeSystem = Callable[..., StreamingSystem]
Stream = Callable[..., dict[str, Instance]]

SPEECH = 7
COUNTED = dataclasses.replace(LEAN, instruction="<|begin_of_text|>{multiplier}<|eot_id|>")


@pytest.mark.parametrize("unit", ["tokens", "turns"])
def test_an_instruction_that_is_not_kept_goes_first(
    make: Make, make_system: MakeSystem, noise: Noise, unit: str
) -> None:
    size = 45
    kept, lost = (
        make(window=WindowConfig(size=size, unit=unit, keep_instruction=keep))
        for keep in (True, False)
    )
    streams = [make_system(backbone).open("talk") for backbone in (kept, lost)]
    outputs: list[list[list[int]]] = [[], []]
    for index in range(7):
        for backbone, session, words in zip((kept, lost), streams, outputs, strict=True):
            words.append(turn(backbone, session, noise(0.96, seed=index)).token_ids.tolist())
    instruction = len(kept._instruction(streams[0]))
    first, second = (session.backbone_state for session in streams)
    assert (first.instruction, second.instruction) == (instruction, 0)
    assert min(first.dropped, second.dropped) > instruction
    assert outputs[0][0] == outputs[1][0]  # nothing has been dropped yet
    assert outputs[0] != outputs[1]
    assert sum(first.turns) == first.num_cached - instruction
    assert sum(second.turns) == second.num_cached


def test_a_batch_without_its_instruction_gives_each_stream_its_words_alone(
    make: Make, stream: Stream, noise: Noise
) -> None:
    search = TurnSearchConfig(
        beams=3,
        repetition="prompt",
        lookback=6,
        no_repeat_ngram=3,
        tokens_per_chunk=4,
        at_limit="drop",
    )
    backbone = make(
        search=search, window=WindowConfig(size=60, unit="turns", keep_instruction=False)
    )
    talks = {
        str(seconds): noise(seconds, seed) for seed, seconds in enumerate((7.3, 2.1, 9.6, 5.0))
    }
    together = stream(backbone, talks, multiplier=2, batch_size=3)
    alone = stream(backbone, talks, multiplier=2)
    assert {name: instance.text for name, instance in together.items()} == {
        name: instance.text for name, instance in alone.items()
    }
    assert all(instance.text for instance in alone.values())


@pytest.mark.parametrize("chunks", [1, 2, 3])
def test_the_instruction_names_the_multiplier_for_any_first_chunk(
    make: Make, make_system: MakeSystem, noise: Noise, chunks: int
) -> None:
    backbone = make(template=COUNTED)
    session = make_system(backbone, 2).open("talk")
    assert backbone._opening(session) == [1, *backbone.prompt.ids("2"), END]
    turn(backbone, session, noise(0.96 * chunks), final=chunks == 1)
    assert session.backbone_state.instruction == 3
    assert session.backbone_state.num_cached >= 3 + len(backbone.prompt.turn(chunks))


@pytest.mark.parametrize(("chunks", "limit"), [(1, 20), (2, 20), (4, 40)])
def test_the_token_limit_of_a_turn_grows_with_its_audio(
    make: Make, make_system: MakeSystem, noise: Noise, chunks: int, limit: int
) -> None:
    backbone = make(search=NeverEnding(beams=1))
    session = make_system(backbone, 2).open("talk")
    assert turn(backbone, session, noise(0.96 * chunks), final=True).num_new_tokens == limit


def test_a_dropped_last_id_is_not_in_the_window_either(
    make: Make, make_system: MakeSystem, noise: Noise
) -> None:
    backbone = make(search=NeverEnding(beams=2, at_limit="drop"))
    session = make_system(backbone).open("talk")
    hypothesis, state = turn(backbone, session, noise(0.96)), session.backbone_state
    assert (hypothesis.num_new_tokens, state.pending) == (9, [END])
    assert state.num_cached == state.instruction + len(backbone.prompt.turn(1)) + 9
    assert [token for _, token in state.target_tokens] == hypothesis.token_ids.tolist()


class Speech(ScoredSearch):
    """All for the mark of speech."""

    def scores(self, log_probs: Tensor) -> Tensor:
        return log_probs.index_fill(1, torch.tensor([SPEECH]), 9.0)


@pytest.mark.parametrize("beams", [1, 2])
def test_suppressed_tokens_and_the_speech_token_are_never_generated(
    make: Make, make_system: MakeSystem, noise: Noise, beams: int
) -> None:
    plain = make(search=Speech(beams=beams))
    outputs = turn(plain, make_system(plain).open("talk"), noise(0.96)).token_ids.tolist()
    assert outputs
    assert SPEECH not in outputs
    printable = [chr(token - 8 + ord("!")) for token in outputs if token < 8 + 94]
    assert printable
    muted = make(search=Speech(beams=beams, suppress=printable))
    assert not set(
        turn(muted, make_system(muted).open("talk"), noise(0.96)).token_ids.tolist()
    ) & set(containing(muted.tokenizer, printable))
    with pytest.raises(ZooError, match="No token contains 'laughter'"):
        make(search=TurnSearchConfig(suppress=["laughter"]))


def test_a_stream_cannot_begin_at_an_m_that_has_no_token(
    make: Make, make_system: MakeSystem
) -> None:
    backbone = make(
        template=dataclasses.replace(LEAN, instruction="{latency}", latency="{multiplier}")
    )
    assert make_system(backbone, 9).open("talk").latency_multiplier == 9
    with pytest.raises(
        ZooError, match=r"no latency token for m = 10; it has tokens for m = 1, 2, .*, 9\."
    ):
        make_system(backbone, 10).open("talk")


def test_a_late_start_receives_all_earlier_audio(
    make: Make, make_system: MakeSystem, noise: Noise
) -> None:
    backbone, signal = make(), noise(0.96 * 4)
    late, whole = make_system(backbone), make_system(backbone)
    late.policy.min_start = 2.5
    session, other = late.open("talk"), whole.open("talk")
    blocks = signal.split(CHUNK_SAMPLES)
    texts = [late.step([session], [SpeechChunk(block)])[0].text for block in blocks]
    assert texts[:2] == ["", ""]
    assert texts[2:] == [
        whole.step([other], [SpeechChunk(torch.cat(blocks[:3]))])[0].text,
        whole.step([other], [SpeechChunk(blocks[3])])[0].text,
    ]
    assert texts[2]
