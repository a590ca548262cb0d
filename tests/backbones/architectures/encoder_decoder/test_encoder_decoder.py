"""Decoding live sessions on a random network: prefixes, requests, limits, returned fields, cost."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pytest
import torch
from tokenizers import Tokenizer, decoders, models
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from tests.fixtures.streams import new_session, white_noise
from zoo.backbones.architectures.encoder_decoder import layers as layers_module
from zoo.backbones.architectures.encoder_decoder.encoder_decoder import EncoderDecoder
from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.decoding.search import SearchConfig
from zoo.backbones.encoders.encoder_memory import EncodedStreamState
from zoo.base.errors import ZooError
from zoo.base.types import Capability, Cut, Request, SpeechChunk, Task
from zoo.streaming.session import Session
from zoo.streaming.text import TextStream

FRAME = 160
PAD, END, GERMAN, ENGLISH = 1, 2, 7, 8
ALIGNED = frozenset({Capability.ALIGNMENT, Capability.PREFIX})
PLAIN = frozenset({Capability.PREFIX})
GREEDY = SearchConfig(no_repeat_ngram=2)


def pieces() -> dict[str, int]:
    """Every third piece goes on with a word, some end a sentence."""
    special = ["<s>", "<pad>", "</s>", "<unk>", "a", "b", "c", "__deu__", "__eng__"]
    text = [
        f"x{n}" if n % 3 == 0 else f"▁w{n}." if n % 7 == 0 else f"▁w{n}"
        for n in range(len(special), 40)
    ]
    return {piece: number for number, piece in enumerate([*special, *text])}


def make_tokenizer() -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.BPE(vocab=pieces(), merges=[], unk_token="<unk>"))
    backend.decoder = decoders.Metaspace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", eos_token="</s>", bos_token="<s>"
    )
    tokenizer.add_special_tokens({"additional_special_tokens": ["__deu__", "__eng__"]})
    return tokenizer


class Hummer(EncoderDecoder):
    """Its memory is audio times a random matrix, padded to ``filled`` frames as Whisper's."""

    exposes: ClassVar[frozenset[Capability]] = EncoderDecoder.exposes | {Capability.TRANSCRIPT}
    frame_samples = FRAME

    def __init__(self, family: Any, *, filled: int = 0, **options: Any) -> None:
        super().__init__(**({"search": GREEDY, "max_tokens": 12, "dtype": "float64"} | options))
        self.family = family
        self.filled = filled
        self.encoded_lengths: list[list[int]] = []

    def build(self) -> None:
        self.decoder, self.tokenizer, self.end = self.family.decoder, make_tokenizer(), END
        self.mixing = (
            torch.randn(FRAME, 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
            / 6
        )

    def open(self, session: Session) -> EncodedStreamState:
        return EncodedStreamState()  # it has no features to keep

    def encode_audio(self, sessions: Sequence[Session], waves: Sequence[Tensor]) -> list[Tensor]:
        self.encoded_lengths.append([len(wave) for wave in waves])
        return [self.memory(wave) for wave in waves]

    def memory(self, wave: Tensor) -> Tensor:
        frames = wave[: len(wave) // FRAME * FRAME].view(-1, FRAME).double() @ self.mixing
        return (
            torch.cat([frames, frames.new_ones(max(0, self.filled - len(frames)), 16)])
            if len(frames)
            else frames
        )

    def opening(self, session: Session, task: Task) -> list[int]:
        return [END, ENGLISH if task is Task.TRANSCRIPTION else GERMAN]


Make = Callable[..., Hummer]


@pytest.fixture
def make(speech_to_text: Any) -> Make:
    def build(family: Any = speech_to_text, **options: Any) -> Hummer:
        backbone = Hummer(family, **options)
        backbone.load()
        return backbone

    return build


def make_session(
    backbone: Hummer,
    frames: float,
    *,
    seed: int = 0,
    prefix: Sequence[int] = (),
    target: str = "de",
) -> Session:
    audio = white_noise(round(frames * FRAME), seed)
    return new_session(backbone, audio, target=target, prefix=prefix)


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("prefix", [[], [10, 12, 13]])
def test_an_answer_follows_the_prefix_as_transformers_would(
    make: Make, beams: int, prefix: list[int]
) -> None:
    backbone = make(search=SearchConfig(beams=beams, no_repeat_ngram=2))
    ends = set()
    for seed, backbone.max_tokens in ((0, 12), (1, 2), (6, 3), (6, 12), (7, 12)):
        session = make_session(backbone, 9, seed=seed, prefix=prefix)
        (answer,) = backbone.decode([session], [Request()], PLAIN)
        expected = backbone.family.theirs(
            backbone.memory(session.audio),
            [END, GERMAN, *prefix],
            backbone.search,
            backbone.max_tokens,
        )
        assert answer.token_ids.tolist() == [token for token in expected if token != END]
        assert (answer.prefix_length, answer.finished, answer.alignment) == (
            len(prefix),
            True,
            None,
        )
        assert answer.truncated == (END not in expected)
        whole = [*prefix, *answer.token_ids.tolist()]
        starts = [token > 8 and token % 3 > 0 for token in whole]
        assert answer.word_starts.tolist() == ([True, *starts[1:]] if starts else [])
        assert answer.sentence_ends is not None
        assert answer.sentence_ends.tolist() == [
            token > 8 and token % 7 == 0 and token % 3 > 0 for token in whole
        ]
        ends.add(answer.truncated)
    assert len(ends) == 2


@pytest.mark.parametrize("beams", [1, 3])
def test_an_alignment_has_the_rows_of_transformers(make: Make, beams: int) -> None:
    config = AlignmentConfig(layer=1, heads=[3, 1])
    for query, shift in (("predicting", 1), ("own", 0)):
        backbone = make(
            search=SearchConfig(beams=beams, no_repeat_ngram=2),
            alignment=AlignmentConfig(layer=1, heads=[3, 1], query=query),
        )
        session = make_session(backbone, 7.4, prefix=[10, 12])
        (answer,) = backbone.decode([session], [Request()], ALIGNED)
        ids = [END, GERMAN, 10, 12, *answer.token_ids.tolist()]
        rows = backbone.family.attention(backbone.memory(session.audio), ids)[config.layer][
            [3, 1]
        ].mean(dim=0)
        last = len(ids) - (1 if answer.truncated else 0)
        expected = rows[torch.arange(2, len(ids)).sub(shift).clamp(max=last - 1)]
        torch.testing.assert_close(answer.alignment, expected, rtol=0, atol=1e-9)


def test_a_ragged_batch_is_each_request_alone(make: Make) -> None:
    """Audio, prefixes, tasks and audio ends differ; one stream has no frame yet."""
    backbone = make(max_tokens=9)
    asked = [
        ((5, [10, 12]), Request()),
        ((0.5, []), Request()),
        ((11, [10]), Request(task=Task.TRANSCRIPTION)),
        ((8, []), Request(audio_end=3)),
        ((8, [9, 10, 11, 12]), Request(max_words=1)),
        ((0.7, [11, 12]), Request(task=Task.TRANSCRIPTION)),
    ]
    sessions = [
        make_session(backbone, size, seed=seed, prefix=prefix)
        for seed, ((size, prefix), _) in enumerate(asked)
    ]
    together = backbone.decode(sessions, [request for _, request in asked], ALIGNED)
    for seed, (((size, prefix), request), answer) in enumerate(zip(asked, together, strict=True)):
        (alone,) = backbone.decode(
            [make_session(backbone, size, seed=seed, prefix=prefix)], [request], ALIGNED
        )
        assert answer.token_ids.equal(alone.token_ids)
        assert answer.word_starts.equal(alone.word_starts)
        assert (answer.finished, answer.truncated, answer.prefix_length) == (
            alone.finished,
            alone.truncated,
            alone.prefix_length,
        )
        assert answer.transcript == alone.transcript
        if request.task is Task.TRANSLATION:
            torch.testing.assert_close(answer.alignment, alone.alignment, rtol=0, atol=1e-12)
    assert together[3].num_frames == 3
    assert together[2].prefix_length == 0
    assert together[2].transcript == backbone.text(together[2].token_ids.tolist()).strip() != ""
    assert together[5].transcript == ""


def test_audio_without_a_frame_gives_an_empty_hypothesis(make: Make) -> None:
    backbone = make()
    session = make_session(backbone, 0.4, prefix=[10, 12])
    (answer,) = backbone.decode([session], [Request()], ALIGNED)
    assert (answer.num_new_tokens, answer.prefix_length, answer.finished, answer.truncated) == (
        0,
        2,
        True,
        False,
    )
    assert answer.attended_frames.tolist() == [0, 0]
    assert answer.word_starts.tolist() == [True, False]


def test_the_same_audio_is_encoded_once(make: Make) -> None:
    backbone = make()
    session = make_session(backbone, 6)
    backbone.decode([session], [Request()], PLAIN)
    backbone.decode([session], [Request(task=Task.TRANSCRIPTION)], PLAIN)
    other = make_session(backbone, 4)
    backbone.decode([session, other], [Request(), Request()], PLAIN)
    assert backbone.encoded_lengths == [[6 * FRAME], [4 * FRAME]]
    session.receive(SpeechChunk(torch.zeros(FRAME)))
    backbone.decode([session, other], [Request(), Request(audio_end=2)], PLAIN)
    assert backbone.encoded_lengths[2:] == [[7 * FRAME, 2 * FRAME]]


def test_cut_audio_is_encoded_again(make: Make) -> None:
    backbone = make()
    session = make_session(backbone, 6)
    backbone.decode([session], [Request()], PLAIN)
    backbone.forget(session, Cut(tokens=0, frames=2))
    session.forget(Cut(frames=2))
    assert session.backbone_state.memory is None
    session.receive(SpeechChunk(torch.zeros(2 * FRAME)))  # as long as before
    backbone.decode([session], [Request()], PLAIN)
    assert backbone.encoded_lengths == [[6 * FRAME], [6 * FRAME]]


def test_no_weights_unless_an_alignment_is_needed(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Tensor] = []
    original = layers_module.weights
    monkeypatch.setattr(
        layers_module, "weights", lambda *given: calls.append(given[0]) or original(*given)
    )
    backbone = make()
    session = make_session(backbone, 6)
    (plain,) = backbone.decode([session], [Request()], PLAIN)
    assert (calls, plain.alignment) == ([], None)
    (aligned,) = backbone.decode([session], [Request()], ALIGNED)
    assert aligned.token_ids.equal(plain.token_ids)
    # the prompt, then every token that was fed: one layer each
    assert len(calls) == 1 + plain.num_new_tokens - plain.truncated


def test_frames_beyond_the_wave_are_attended_to_but_not_aligned_with(make: Make) -> None:
    filled, own = make(filled=20), make()
    waves = [make_session(filled, size, seed=1) for size in (6, 3.5)]
    answers = filled.decode(waves, [Request(), Request()], ALIGNED)
    assert [answer.num_frames for answer in answers] == [6, 4]
    assert answers[0].alignment is not None
    assert (answers[0].alignment.sum(dim=1) < 0.99).all()
    (other,) = own.decode([make_session(own, 6, seed=1)], [Request()], ALIGNED)
    assert not answers[0].token_ids.equal(other.token_ids)


def test_enough_words_are_enough(make: Make) -> None:
    backbone = make(max_tokens=30)
    for seed in range(4):
        session = make_session(backbone, 9, seed=seed, prefix=[10, 12])
        (whole,) = backbone.decode([session], [Request()], ALIGNED)
        for words in (0, 1, 2, 3):
            (answer,) = backbone.decode([session], [Request(max_words=words)], ALIGNED)
            assert answer.token_ids.equal(whole.token_ids[: answer.num_new_tokens])
            assert answer.tokens_in_first_words(words) == whole.tokens_in_first_words(words)
            assert answer.alignment is not None
            assert len(answer.alignment) == 2 + answer.num_new_tokens
            if answer.num_new_tokens < whole.num_new_tokens:
                assert (answer.finished, answer.truncated) == (False, False)
                begun = answer.word_starts[3:].tolist()
                assert sum(begun) == words
                assert begun[-1:] == [True] * (words > 0)


def test_a_position_table_limits_prefix_and_hypothesis(
    make: Make, make_family: Callable[[str], Any]
) -> None:
    backbone = make(
        family=make_family("whisper"), max_tokens=30, search=SearchConfig(no_repeat_ngram=1)
    )
    backbone.never = [PAD, END]
    session = make_session(backbone, 5, prefix=[10, 12] * 28)
    (answer,) = backbone.decode([session], [Request()], ALIGNED)
    assert (answer.num_new_tokens, answer.truncated) == (64 - 58, True)
    assert answer.must_restart
    (shorter,) = backbone.decode([session], [Request(max_words=1)], PLAIN)
    assert not shorter.must_restart
    session.prefix_ids = torch.tensor([10, 12] * 31)
    with pytest.raises(
        ZooError, match="64 positions, but 64 tokens of its opening and of written text are kept"
    ):
        backbone.decode([session], [Request()], PLAIN)


def test_suppressed_tokens(make: Make) -> None:
    backbone = make(search=SearchConfig(suppress=["w1"]))
    assert backbone.never == [PAD, *(number for piece, number in pieces().items() if "w1" in piece)]
    backbone.never_first = [token for token in range(40) if token != 20]
    (answer,) = backbone.decode([make_session(backbone, 6)], [Request()], PLAIN)
    assert answer.token_ids[:1].tolist() == [20]
    (later,) = backbone.decode([make_session(backbone, 6, prefix=[20])], [Request()], PLAIN)
    assert later.token_ids[:1].tolist() != [20]


@pytest.mark.parametrize("beams", [1, 2])
def test_a_first_token_is_suppressed_after_kept_text_on_request(make: Make, beams: int) -> None:
    def first_tokens(backbone: Hummer, prefix: list[int]) -> list[int]:
        [answer] = backbone.decode([make_session(backbone, 6, prefix=prefix)], [Request()], PLAIN)
        return answer.token_ids[:1].tolist()

    plain = make(search=SearchConfig(beams=beams))
    always = make(search=SearchConfig(beams=beams), suppress_first="always")
    kept = [20, 12]
    assert first_tokens(plain, kept) == []  # the model ends the text
    [written] = first_tokens(always, kept)
    always.never_first = plain.never_first = [written]
    assert first_tokens(plain, kept) == []
    [other] = first_tokens(always, kept)
    assert other not in (END, written)


def test_an_unknown_rule_of_first_tokens_is_refused(make: Make) -> None:
    with pytest.raises(ZooError, match=r"suppress_first 'never'; choose one of: without_text, al"):
        make(suppress_first="never")


def test_characters_are_the_unit_of_some_languages(make: Make) -> None:
    backbone, prefix = make(), [9, 12, 15, 10]
    for target, starts in (("zh", [True] * 4), ("de", [True, False, False, True])):
        (answer,) = backbone.decode(
            [make_session(backbone, 9, prefix=prefix, target=target)], [Request()], PLAIN
        )
        assert answer.word_starts[:4].tolist() == starts


def test_text_keeps_its_spaces_piece_by_piece(make: Make) -> None:
    backbone, stream = make(), TextStream(decode=make().text, separator=" ")
    ids = [10, 12, 14, 9, 13, END, 16, GERMAN, 17]
    assert backbone.text(ids) == "w10x12 w14.x9 w13 w16 w17"
    assert "".join(
        stream.push(torch.tensor([token]), fresh=False) for token in ids
    ) == backbone.text(ids)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_tokens": 0}, "max_tokens of at least 1"),
        ({"dtype": "float99"}, "Unknown dtype 'float99'"),
        ({"dtype": "int8"}, "Unknown dtype 'int8'; choose one of: float32, bfloat16,"),
        ({"dtype": "half"}, "Unknown dtype 'half'"),
        ({"dtype": "complex64"}, "Unknown dtype 'complex64'"),
        ({"alignment": AlignmentConfig(layer=3)}, "names layer 3"),
        ({"search": SearchConfig(suppress=["nowhere"])}, "No token contains 'nowhere'"),
    ],
)
def test_incompatible_parts_are_refused_at_the_latest_after_loading(
    make: Make, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ZooError, match=message):
        make(**settings)
