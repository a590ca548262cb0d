"""Complete blocks of audio are encoded once, and equal prompt positions are decoded once."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.fixtures.streams import white_noise
from zoo.backbones.decoding.causal.branches import CausalBranches
from zoo.backbones.qwen2_5_omni.qwen2_5_omni import Qwen25Omni
from zoo.base.languages import language
from zoo.base.types import Cut, Hypothesis, Request, SpeechChunk, Task
from zoo.streaming.session import Session
from zoo.streaming.text import TextStream

BLOCK = 40  # feature frames of 10 ms, 0.4 s
CHUNK = 0.48  # seconds: a block ends inside of most chunks
TRANSCRIPT = Request(task=Task.TRANSCRIPTION)


@pytest.fixture
def backbone(tiny: Callable[..., Qwen25Omni]) -> Qwen25Omni:
    return tiny(max_tokens=6)


def opened(backbone: Qwen25Omni) -> Session:
    text = TextStream(decode=backbone.text, separator=" ")
    session = Session("talk", language("en"), language("de"), backbone.frame_samples, text)
    session.backbone_state = backbone.open(session)
    return session


def chunks(count: int) -> list[Tensor]:
    """Noise that is no louder later: a new maximum changes the frames before it."""
    samples = round(CHUNK * 16_000)
    noise = white_noise(count * samples, 3, scale=0.1)
    noise[:1600] *= 5
    return list(noise.split(samples))


def fresh(backbone: Qwen25Omni, audio: Tensor) -> Tensor:
    """The speech embeddings of audio (n,) that a new stream has received."""
    [speech] = backbone.encode_audio([opened(backbone)], [audio])
    return speech


class Counted:
    """Counts the frames that are encoded and the prompt positions that are decoded."""

    def __init__(self, backbone: Qwen25Omni, monkeypatch: pytest.MonkeyPatch) -> None:
        self.frames: list[int] = []
        self.positions: list[int] = []
        encode, begin = type(backbone).encode, CausalBranches.__init__

        def encoded(backbone: Qwen25Omni, features: Sequence[Tensor]) -> Any:
            self.frames += map(len, features)
            return encode(backbone, features)

        def begun(branches: CausalBranches, decoder: Any, texts: Any, prompts: Any, **given: Any):  # type: ignore[no-untyped-def]
            self.positions += map(len, prompts)
            begin(branches, decoder, texts, prompts, **given)

        monkeypatch.setattr(type(backbone), "encode", encoded)
        monkeypatch.setattr(CausalBranches, "__init__", begun)


def transcribed(backbone: Qwen25Omni, sessions: Sequence[Session]) -> list[Hypothesis]:
    return backbone.decode(sessions, [TRANSCRIPT] * len(sessions), frozenset())


@torch.inference_mode()
def test_complete_blocks_are_encoded_and_decoded_once(
    backbone: Qwen25Omni, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert backbone.independent_frames == BLOCK
    session = opened(backbone)
    counted = Counted(backbone, monkeypatch)
    lengths = []
    for chunk in chunks(5):
        session.receive(SpeechChunk(chunk))
        transcribed(backbone, [session])
        lengths.append(len(session.backbone_state.transcript.prompt))
    # 48 frames per chunk. The last frame but one of a chunk changes when audio follows it, but
    # not a frame of the blocks before.
    assert counted.frames == [48, 56, 64, 72, 80]
    # prompts are opening, speech, closing; the shared part is opening and the speech of the blocks
    start = backbone.prompt.speech
    known = [0, 10, 20, 30, 40]  # speech embeddings of complete blocks
    fed = [lengths[0], *(n - start - k for n, k in zip(lengths[1:], known[1:], strict=True))]
    assert counted.positions == fed


@torch.inference_mode()
def test_the_output_is_that_of_a_new_stream(backbone: Qwen25Omni) -> None:
    session, received = opened(backbone), torch.zeros(0)
    texts = set()
    for chunk in chunks(6):
        session.receive(SpeechChunk(chunk))
        received = torch.cat([received, chunk])
        new = opened(backbone)
        new.receive(SpeechChunk(received))
        [answer], [expected] = (transcribed(backbone, [one]) for one in (session, new))
        assert answer.token_ids.tolist() == expected.token_ids.tolist()
        speech = session.backbone_state.encoded.speech
        torch.testing.assert_close(speech, fresh(backbone, received), rtol=0, atol=1e-11)
        torch.testing.assert_close(
            session.backbone_state.transcript.cache,
            new.backbone_state.transcript.cache,
            rtol=0,
            atol=2e-6,  # the norms compute in float32
        )
        texts.add(tuple(answer.token_ids.tolist()))
    assert len(texts) > 1


@torch.inference_mode()
def test_a_louder_sound_encodes_the_audio_that_it_changes_again(
    backbone: Qwen25Omni, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Energies are clamped to eight powers of ten below the loudest one."""
    session = opened(backbone)
    first, second, third = (1e-4 * chunk for chunk in chunks(3))
    third = 1e6 * third
    session.receive(SpeechChunk(torch.cat([first, second])))
    transcribed(backbone, [session])
    session.receive(SpeechChunk(third))
    counted = Counted(backbone, monkeypatch)
    transcribed(backbone, [session])
    assert counted.frames == [144]
    torch.testing.assert_close(
        session.backbone_state.encoded.speech,
        fresh(backbone, torch.cat([first, second, third])),
        rtol=0,
        atol=1e-11,
    )


@torch.inference_mode()
def test_a_cut_within_a_block_encodes_all_audio_again(
    backbone: Qwen25Omni, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = opened(backbone)
    audio = torch.cat(chunks(3))
    session.receive(SpeechChunk(audio))
    transcribed(backbone, [session])
    counted = Counted(backbone, monkeypatch)
    cut = Cut(frames=5)  # of 40 ms
    backbone.forget(session, cut)
    session.forget(cut)
    transcribed(backbone, [session])
    assert counted.frames == [124]
    rest = audio[5 * backbone.frame_samples :]
    speech = session.backbone_state.encoded.speech
    torch.testing.assert_close(speech, fresh(backbone, rest), rtol=0, atol=1e-11)


@torch.inference_mode()
def test_streams_of_a_batch_reuse_their_own_blocks(backbone: Qwen25Omni) -> None:
    together, alone = ([opened(backbone) for _ in range(2)] for _ in range(2))
    for turn, chunk in enumerate(chunks(5)):
        for sessions in (together, alone):
            sessions[0].receive(SpeechChunk(chunk))
            sessions[1].receive(SpeechChunk(chunk.flip(0)[: 3200 * (1 + turn % 2)]))
        for answer, session in zip(transcribed(backbone, together), alone, strict=True):
            [single] = transcribed(backbone, [session])
            assert answer.token_ids.tolist() == single.token_ids.tolist()
