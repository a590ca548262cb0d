"""Tokens and attention of LST equal Transformers on the whole dialogue; batches equal streams."""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal
from unittest import mock

import pytest
import torch
from torch import Tensor

from tests.fixtures.streams import new_system
from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.decoding.causal.aligned import AlignedBranches
from zoo.backbones.decoding.continuation import SearchContext
from zoo.backbones.decoding.rules import SearchRules
from zoo.backbones.decoding.search import SearchConfig
from zoo.backbones.lst import lst
from zoo.backbones.lst.lst import LST
from zoo.base.errors import ZooError
from zoo.base.types import Capability, Cut, Request
from zoo.policies.edatt import EDAtt
from zoo.policies.read_all import ReadAll
from zoo.streaming.session import Session
from zoo.streaming.simulate import Source, simulate

Make = Callable[..., LST]
Live = Callable[..., Session]

ALIGNED = frozenset({Capability.ALIGNMENT})
PREFIX = [40, 100, 60, 39, 71]
CLOSE = {"rtol": 0, "atol": 2e-6}  # the language model's norms compute in float32


def dialogue(backbone: LST, audio: Tensor, text: list[int]) -> tuple[Tensor, slice]:
    """(1, positions, width): instruction, speech and text embeddings; and the speech positions."""
    hidden = backbone.encoder(audio.double()[None], backbone.block_chunks).hidden
    speech = backbone.adapter(hidden)[0]
    prompt = backbone.prompt.tokenizer(
        "<|begin_of_text|>Translate the following speech from English to German.<|eot_id|><|user|>",
        add_special_tokens=False,
    )["input_ids"]
    after = backbone.prompt.tokenizer("<|eot_id|><|assistant|>", add_special_tokens=False)[
        "input_ids"
    ]
    embed = backbone.decoder.get_input_embeddings()
    parts = [embed(torch.tensor(prompt)), speech, embed(torch.tensor(after + text))]
    return torch.cat(parts)[None], slice(len(prompt), len(prompt) + len(speech))


def transformers_own(backbone: LST, audio: Tensor, text: list[int]) -> tuple[Tensor, Tensor]:
    """Next-token log-probabilities and attention of all layers.

    Shapes: (text + 1, vocabulary) and (text + 1, heads, speech).

    Rows: the position before the text, then the text's.
    """
    embeddings, speech = dialogue(backbone, audio, text)
    backbone.decoder.set_attn_implementation("eager")
    try:
        output = backbone.decoder(inputs_embeds=embeddings, output_attentions=True)
    finally:
        backbone.decoder.set_attn_implementation("zoo_grouped")
    rows = slice(-1 - len(text), None)
    # (layers, heads, positions, positions)
    attention = torch.stack([layer[0] for layer in output.attentions])
    return output.logits[0, rows].log_softmax(-1), attention[:, :, rows, speech].transpose(1, 2)


@torch.inference_mode()
@pytest.mark.parametrize("prefix", [[], PREFIX])
def test_greedy_words_are_those_of_the_whole_dialogue(
    make: Make, live: Live, prefix: list[int]
) -> None:
    backbone = make()
    session = live(backbone, seconds=1.6, prefix=prefix)
    hypothesis = backbone.decode([session], [Request()], frozenset())[0]
    text = list(prefix)
    while len(text) < len(prefix) + backbone.max_tokens:
        scores = transformers_own(backbone, session.audio, text)[0][-1]
        scores[backbone.prompt.speech] = -torch.inf
        token = int(scores.argmax())
        if token == backbone.prompt.end_of_turn:
            break
        text.append(token)
    assert hypothesis.token_ids.tolist() == text[len(prefix) :]
    assert (hypothesis.prefix_length, hypothesis.alignment) == (len(prefix), None)
    assert hypothesis.truncated == (hypothesis.num_new_tokens == backbone.max_tokens)


@torch.inference_mode()
@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("query", ["predicting", "own", "mixed"])
def test_alignment_is_the_layers_own_attention(
    make: Make, live: Live, query: str, beams: int
) -> None:
    """Of the winning beam."""
    search = SearchConfig(beams=beams, no_repeat_ngram=0, repetition_penalty=1.0)
    backbone = make(alignment={"layer": 1, "heads": [0, 3], "query": query}, search=search)
    session = live(backbone, seconds=1.6, prefix=PREFIX)
    hypothesis = backbone.decode([session], [Request()], ALIGNED)[0]
    assert hypothesis.num_new_tokens > 1
    assert hypothesis.num_frames == 20
    text = PREFIX + hypothesis.token_ids.tolist()
    rows = transformers_own(backbone, session.audio, text)[1][1][:, [0, 3]].mean(dim=1)
    own = [
        {"predicting": False, "own": True, "mixed": i < len(PREFIX)}[query]
        for i in range(len(text))
    ]
    if hypothesis.truncated:  # the last one has not been fed
        own[-1] = False
    expected = torch.stack([rows[i + later] for i, later in enumerate(own)])
    torch.testing.assert_close(hypothesis.alignment, expected.to(hypothesis.alignment), **CLOSE)


@torch.inference_mode()
def test_heads_of_several_layers(make: Make, live: Live) -> None:
    backbone = make(alignment=AlignmentConfig(heads=[[2, 1], [0, 3]]))
    session = live(backbone, seconds=1.6, prefix=PREFIX)
    hypothesis = backbone.decode([session], [Request()], ALIGNED)[0]
    layers = transformers_own(backbone, session.audio, PREFIX + hypothesis.token_ids.tolist())[1]
    expected = (layers[2, :-1, 1] + layers[0, :-1, 3]) / 2
    torch.testing.assert_close(hypothesis.alignment, expected.to(hypothesis.alignment), **CLOSE)


@torch.inference_mode()
def test_a_forced_prefix_is_the_same_step_by_step(make: Make, noise: Callable[..., Tensor]) -> None:
    backbone, audio = make(), noise(1.6)
    forced, stepped = (
        AlignedBranches(
            backbone.decoder,
            [dialogue(backbone, audio, text)[0][0]],
            prefixes=[len(text)],
            speech=[dialogue(backbone, audio, text)[1].start + torch.arange(20)],
            heads={0: None, 2: [1]},
        )
        for text in (PREFIX, [])
    )
    for token in PREFIX:
        stepped.step(torch.tensor([token]))
    torch.testing.assert_close(forced.log_probs, stepped.log_probs, **CLOSE)
    torch.testing.assert_close(forced.generated(0), stepped.generated(0), **CLOSE)
    assert forced.generated(0).shape == (1 + len(PREFIX), 5, 20)


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("block_chunks", [0, 1])
def test_a_batch_equals_its_streams_decoded_alone(
    make: Make, live: Live, beams: int, block_chunks: int
) -> None:
    """Ragged audio and ragged text."""
    search = SearchConfig(beams=beams, no_repeat_ngram=2, repetition_penalty=1.3)
    backbone = make(search=search, block_chunks=block_chunks)
    batched = make(search=search, block_chunks=block_chunks, capture="static")
    settings = [(2.5, PREFIX, 0), (0.1, [50], 1), (1.3, [], 2), (1.3, PREFIX[:2], 3)]

    def streams() -> list[Session]:
        return [
            live(backbone, seconds=seconds, prefix=prefix, seed=seed)
            for seconds, prefix, seed in settings
        ]

    together = batched.decode(streams(), [Request()] * 4, ALIGNED)
    alone = [backbone.decode([session], [Request()], ALIGNED)[0] for session in streams()]
    assert len({tuple(hypothesis.token_ids.tolist()) for hypothesis in alone}) > 1
    for one, other in zip(together, alone, strict=True):
        assert torch.equal(one.token_ids, other.token_ids)
        assert torch.equal(one.word_starts, other.word_starts)
        torch.testing.assert_close(one.alignment, other.alignment, **CLOSE)
        assert one.alignment is not None
        assert one.alignment.shape[0] == one.prefix_length + one.num_new_tokens


def test_recording_attention_changes_no_word(make: Make, live: Live) -> None:
    backbone = make()
    plain, recorded = (
        backbone.decode([live(backbone, seconds=2.0)], [Request()], needs)[0]
        for needs in (frozenset(), ALIGNED)
    )
    assert torch.equal(plain.token_ids, recorded.token_ids)


def test_speech_is_encoded_once_per_request(make: Make, live: Live) -> None:
    backbone = make()
    session = live(backbone, seconds=2.0)
    with mock.patch.object(lst, "encode_kept", wraps=lst.encode_kept) as encode:
        first = backbone.decode([session], [Request()], frozenset())[0]
        again = backbone.decode([session], [Request(max_words=1)], frozenset())[0]
        assert encode.call_count == 1
        backbone.decode([session], [Request(audio_end=10)], frozenset())
        assert encode.call_count == 2
        backbone.forget(session, Cut(frames=3))
        session.forget(Cut(frames=3))
        cut = backbone.decode([session], [Request()], ALIGNED)[0]
        assert encode.call_count == 3
    assert torch.equal(first.token_ids[: again.num_new_tokens], again.token_ids)
    assert cut.num_frames == 22


def test_an_answer_stops_after_the_words_asked_for(make: Make, live: Live) -> None:
    backbone = make(end_scale=0.0)
    all_words, one = (
        backbone.decode([live(backbone, seconds=2.0)], [Request(max_words=words)], frozenset())[0]
        for words in (None, 1)
    )
    begins = all_words.word_starts[1:].nonzero().flatten().tolist()
    assert (all_words.num_new_tokens, all_words.finished, all_words.truncated) == (8, True, True)
    expected = begins[0] + 2 if begins else 8
    assert (one.num_new_tokens, one.finished) == (expected, expected == 8)


def test_one_chunk_of_everything_is_the_offline_answer(
    make: Make, live: Live, noise: Callable[..., Tensor]
) -> None:
    backbone = make()
    system = new_system(backbone, ReadAll(), chunk_seconds=3.0, loaded=True)
    audio = noise(2.3)
    instance = next(iter(simulate(system, [Source("talk", audio.split(system.chunk_samples))])))
    offline = backbone.decode([live(backbone, seconds=2.3)], [Request()], frozenset())[0]
    assert offline.num_new_tokens > 0
    # bytes that are no character
    text = backbone.text(offline.token_ids.tolist()).replace("\ufffd", "").strip()
    assert text
    assert instance.text == text


def test_a_block_of_zero_chunks_is_all_that_is_kept(make: Make, live: Live) -> None:
    """With blocks of one chunk, later audio changes no embedding of the first chunk; else some."""
    for block_chunks, alike in ((1, True), (0, False)):
        backbone = make(block_chunks=block_chunks)
        first, second = live(backbone, seconds=3.0), live(backbone, seconds=3.0)
        second.audio = torch.cat([first.audio[:-1000], torch.zeros(1000)])
        outputs = [
            backbone.encode_audio([session], [session.audio])[0][:12] for session in (first, second)
        ]
        assert torch.equal(*outputs) == alike


@pytest.mark.parametrize(("left_pad", "embeddings"), [(80, 3), (399, 3), (0, 2)])
def test_a_last_piece_is_filled_up_or_left_out(
    make: Make, live: Live, left_pad: int, embeddings: int
) -> None:
    """Released code (0): 2 n + 1300 samples give 11 frames; four frames make an embedding."""
    encoder = replace(make().encoder_config, left_pad=left_pad)
    backbone = make(encoder=encoder)
    session = live(backbone, seconds=1.0)
    assert (
        len(backbone.encode_audio([session], [session.audio[: 2 * 1280 + 1100]])[0]) == embeddings
    )


def test_audio_too_short_for_an_embedding_gives_an_empty_hypothesis(make: Make, live: Live) -> None:
    backbone = make(encoder=replace(make().encoder_config, left_pad=0))
    short, long = live(backbone, seconds=0.08, prefix=PREFIX), live(backbone, seconds=1.0)
    for sessions in ([short, long], [short]):
        hypothesis = backbone.decode(sessions, [Request()] * len(sessions), ALIGNED)[0]
        assert (
            hypothesis.num_new_tokens,
            hypothesis.prefix_length,
            hypothesis.finished,
            hypothesis.truncated,
        ) == (0, 5, True, False)
        assert hypothesis.attended_frames.tolist() == [0] * 5


def test_repetition_controls_count_text_or_prompt() -> None:
    context = SearchContext(earlier=[5, 6], prompt=[1, 2, 5, 6])
    scores = torch.full((1, 10), -1.0)
    for repetition, penalised in (("text", [5, 6, 7]), ("prompt", [1, 2, 5, 6, 7])):
        config = SearchConfig(repetition=repetition, repetition_penalty=2.0)  # type: ignore[arg-type]
        rules = SearchRules(config.controls, [context], log_probs=scores, answers=[[7]])
        assert (rules.scores(scores)[0] == -2).nonzero().flatten().tolist() == penalised
    with pytest.raises(ZooError, match="repetition=prompt needs a no_repeat_ngram other than 1"):
        SearchConfig(repetition="prompt", no_repeat_ngram=1)


def test_contradictory_options_are_refused(make: Make) -> None:
    with pytest.raises(ZooError, match="max_tokens of at least 1, not 0"):
        make(max_tokens=0)
    with pytest.raises(ZooError, match="block_chunks of at least 0, not -1"):
        make(block_chunks=-1)
    with pytest.raises(ZooError, match=r"names layer 3, but the decoder's layers are 0 to 2"):
        make(alignment={"layer": 3})
    with pytest.raises(
        ZooError, match=r"backbone\.alignment\.query must be one of predicting, own, mixed, not 'x'"
    ):
        make(alignment={"query": "x"})


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("query", ["predicting", "own"])
def test_an_answer_ends_at_its_first_late_token(
    make: Make, live: Live, beams: int, query: Literal["predicting", "own"]
) -> None:
    """The whole answer is the expectation, in a batch with speech of different lengths."""
    backbone = make(
        end_scale=0.5,
        max_tokens=12,
        search=SearchConfig(beams=beams, no_repeat_ngram=3, repetition_penalty=1.0),
        alignment=AlignmentConfig(layer=1, query=query),
    )
    policy = EDAtt(alpha=0.6, last_frames=4)
    seconds = (1.5, 2.5, 4.0, 3.2)
    answers = {}
    for late in (None, policy.attends_to_newest):
        sessions = [
            live(backbone, seconds=length, prefix=[40, 51][: index % 3], seed=index)
            for index, length in enumerate(seconds)
        ]
        answers[late] = backbone.decode(sessions, [Request(stop_at=late)] * 4, ALIGNED)
    early = 0
    for whole, stopped in zip(*answers.values(), strict=True):
        unstable = policy.unstable(whole).tolist()
        tokens = stopped.num_new_tokens
        assert stopped.token_ids.tolist() == whole.token_ids[:tokens].tolist()
        if tokens < whole.num_new_tokens:
            assert tokens == unstable.index(True) + 1
            early += 1
    assert early
