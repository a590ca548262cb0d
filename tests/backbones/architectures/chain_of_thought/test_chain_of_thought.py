"""Chains of thought equal a plain loop over Transformers, whatever is reused or drafted."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from zoo.backbones.architectures.chain_of_thought.chain_of_thought import ChainOfThought
from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.decoding.causal.layers import FastLayers
from zoo.backbones.decoding.search import SearchConfig
from zoo.base.errors import ZooError
from zoo.base.types import Capability, Context, Cut, Request, Task, Term
from zoo.history.keep_all import KeepAll
from zoo.policies.read_all import ReadAll
from zoo.policies.transcript_wait_k import TranscriptWaitK
from zoo.streaming.session import Session
from zoo.systems.binding import bind

Make = Callable[..., ChainOfThought]
Live = Callable[..., Session]

ALIGNED = frozenset({Capability.ALIGNMENT})
TRANSCRIPT = Request(task=Task.TRANSCRIPTION)
PREFIX = [40, 100, 60, 39, 71]


def opening(backbone: ChainOfThought, audio: Tensor) -> tuple[Tensor, slice]:
    """(positions, width) of the prompt, embedded piece by piece; where the speech stands."""
    frames = backbone.prepared(
        backbone.spectrogram.compute(backbone.spectrogram.open(), audio, 0)
    ).double()
    speech = backbone.project(backbone.encode([frames])[0][0])
    instruction = "Translate the audio to German." if backbone.direct else "To German."
    embed, tokenizer = backbone.model.get_input_embeddings(), backbone.tokenizer
    user, after = (
        embed(torch.tensor(tokenizer(text, add_special_tokens=False)["input_ids"]))
        for text in ("<|user|>", f"{instruction}<|end|><|assistant|>")
    )
    return torch.cat([user, speech, after]), slice(len(user), len(user) + len(speech))


def transformers_own(
    backbone: ChainOfThought, audio: Tensor, answer_ids: list[int]
) -> tuple[Tensor, Tensor]:
    """Next-token scores (1 + n, vocabulary) and attention (layers, 1 + n, heads, speech), n ids."""
    prompt, speech = opening(backbone, audio)
    embeddings = torch.cat(
        [prompt, backbone.model.get_input_embeddings()(torch.tensor(answer_ids, dtype=torch.long))]
    )
    backbone.model.set_attn_implementation("eager")
    try:
        output = backbone.model(inputs_embeds=embeddings[None], output_attentions=True)
    finally:
        backbone.model.set_attn_implementation("zoo_grouped")
    scores = output.logits[0, -1 - len(answer_ids) :]
    scores[:, backbone.prompt.audio] = -torch.inf
    attention = torch.stack([layer[0] for layer in output.attentions])
    return scores, attention[:, :, -1 - len(answer_ids) :, speech].transpose(1, 2)


def greedy(
    backbone: ChainOfThought, audio: Tensor, answer_ids: list[int], *, separator: list[int]
) -> list[int]:
    """Greedy tokens after ``answer_ids`` up to the separator (exclusive), the end or the limit."""
    new: list[int] = []
    while len(new) < backbone.max_tokens:
        token = int(transformers_own(backbone, audio, answer_ids + new)[0][-1].argmax())
        if token in backbone.tokenizer.convert_tokens_to_ids(["<|pad|>", "<|end|>"]):
            return new
        new.append(token)
        if separator and new[-len(separator) :] == separator:
            return new[: -len(separator)]
    return new


def ask(backbone: ChainOfThought, session: Session, request: Request) -> list[int]:
    return backbone.decode([session], [request], frozenset())[0].token_ids.tolist()


@contextmanager
def passes(backbone: ChainOfThought) -> Iterator[list[int]]:
    """Positions fed in each pass through the decoder."""
    sizes: list[int] = []
    call = FastLayers.__call__

    def noted(layers: FastLayers, embeddings: Tensor, *given: Any) -> Tensor:
        sizes.append(embeddings.shape[1])
        return call(layers, embeddings, *given)

    with patch.object(FastLayers, "__call__", noted):
        yield sizes


@torch.inference_mode()
@pytest.mark.parametrize("separated", [True, False])
@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("prefix", [[], PREFIX])
def test_words_are_those_of_a_plain_loop(
    make: Make, live: Live, separated: bool, fast: bool, prefix: list[int]
) -> None:
    """Audio grows, so drafts exist; the separator is one token, or a space and five bytes."""
    lengths, longest = set[int](), 0
    for seed in range(2):
        backbone = make(seed=seed, separated=separated, draft=fast, reuse=fast, max_tokens=9)
        separator = backbone.prompt.separator
        assert len(separator) == (1 if separated else 6)
        session = live(backbone, seconds=2.0, prefix=prefix, seed=seed)
        for frames in (8, 16, 25):
            audio = session.audio[: frames * 1280]
            transcript = greedy(backbone, audio, [], separator=separator)
            answer_ids = [*transcript, *separator, *prefix]
            translation = greedy(backbone, audio, answer_ids, separator=[])
            transcription = backbone.decode(
                [session], [Request(Task.TRANSCRIPTION, frames)], frozenset()
            )[0]
            assert transcription.token_ids.tolist() == transcript
            assert (
                transcription.prefix_length,
                transcription.finished,
                transcription.alignment,
            ) == (0, True, None)
            assert transcription.truncated == (len(transcript) == backbone.max_tokens)
            for forced in (None, transcription.token_ids):
                hypothesis = backbone.decode(
                    [session], [Request(Task.TRANSLATION, frames, forced)], frozenset()
                )[0]
                assert hypothesis.token_ids.tolist() == translation
                assert (hypothesis.prefix_length, hypothesis.alignment) == (len(prefix), None)
            lengths.add(len(transcript))
            longest = max(longest, len(translation))
    assert longest > 1
    assert len(lengths) > (1 if separated else 0)


@torch.inference_mode()
@pytest.mark.parametrize("prefix", [[], PREFIX])
def test_a_direct_translation_has_no_transcript(make: Make, live: Live, prefix: list[int]) -> None:
    backbone = make(direct=True, max_tokens=9)
    session = live(backbone, seconds=2.0, prefix=prefix)
    longest = 0
    for frames in (8, 16, 25):
        translation = greedy(backbone, session.audio[: frames * 1280], prefix, separator=[])
        with passes(backbone) as sizes:
            assert ask(backbone, session, Request(audio_end=frames)) == translation
        assert len(sizes) <= len(translation) + 1  # no pass for a transcript
        longest = max(longest, len(translation))
    assert longest > 1
    assert session.backbone_state.transcript is None


def test_a_policy_that_needs_transcripts_refuses_a_direct_model(make: Make) -> None:
    with pytest.raises(ZooError, match=r"TranscriptWaitK needs transcript, which backbone Tiny"):
        bind(make(direct=True), TranscriptWaitK(k=1), KeepAll(), None)
    assert bind(make(direct=True), ReadAll(), KeepAll(), None) == {Capability.PREFIX}


@torch.inference_mode()
def test_a_separator_of_several_pieces_ends_the_transcript(make: Make, live: Live) -> None:
    """A confirmed draft takes one pass and decoding continues from it; changed text takes more."""
    backbone = make(separated=False)
    separator, ids = backbone.prompt.separator, [70, 71, 72]
    session = live(backbone, seconds=2.0)
    with passes(backbone) as sizes, scripted(backbone) as script:
        script[:] = [*ids, *separator, 80, 81, backbone.prompt.end]
        assert ask(backbone, session, Request(Task.TRANSCRIPTION, 10)) == ids
        assert len(sizes) == len(ids) + len(separator)
        sizes.clear()
        assert ask(backbone, session, Request(Task.TRANSCRIPTION, 20)) == ids
        assert len(sizes) == 1
        assert ask(backbone, session, Request(Task.TRANSLATION, 20)) == [80, 81]
        assert sizes[1:] == [len(separator), 1, 1]
        script[:] = [70, 71, 90, 91, *separator]
        sizes.clear()
        assert ask(backbone, session, TRANSCRIPT) == [70, 71, 90, 91]
        assert len(sizes) == 1 + len([90, 91, *separator]) - 1
        # spelled otherwise: without the space
        script[:] = [70, 71, *separator[1:], 80, 81, backbone.prompt.end]
        assert ask(backbone, session, Request(Task.TRANSCRIPTION, 15)) == [70, 71]
        sizes.clear()
        ask(backbone, session, Request(Task.TRANSLATION, 15))
        assert sizes[0] == len(separator)


@torch.inference_mode()
def test_unwritten_tokens_are_verified_in_one_pass(make: Make, live: Live) -> None:
    """The next translation begins with them, or differs from the first changed token on."""
    backbone = make()
    separator, end = backbone.prompt.separator, backbone.prompt.end
    session = live(backbone, seconds=2.0)
    with passes(backbone) as sizes, scripted(backbone) as script:
        for frames, translation, steps in ((10, [80, 81, 82, 83], 4), (20, [81, 82, 90], 1)):
            script[:] = [70, 71, *separator, *session.prefix_ids.tolist(), *translation, end]
            ask(backbone, session, Request(Task.TRANSCRIPTION, frames))
            sizes.clear()
            request = Request(Task.TRANSLATION, frames)
            (hypothesis,) = backbone.decode([session], [request], frozenset())
            assert hypothesis.token_ids.tolist() == translation
            assert len(sizes) == 1 + steps
            backbone.commit(session, hypothesis, 1)
            session.prefix_ids = torch.cat([session.prefix_ids, hypothesis.token_ids[:1]])
    assert session.backbone_state.unwritten == [82, 90]
    backbone.forget(session, Cut(tokens=2, frames=5))
    assert session.backbone_state.unwritten == []


@torch.inference_mode()
def test_every_end_token_of_the_model_ends_an_answer(make: Make, live: Live) -> None:
    """Published models have others than the template's; here padding ends an answer, too."""
    backbone = make(draft=False, reuse=False)
    padding = backbone.tokenizer.convert_tokens_to_ids("<|pad|>")
    assert backbone.ends == [backbone.prompt.end, padding]
    session = live(backbone, seconds=1.0)
    with scripted(backbone) as script:
        for end in backbone.ends:
            script[:] = [70, 71, end, 72, 73]
            (transcript,) = backbone.decode(
                [session], [Request(Task.TRANSCRIPTION, 5)], frozenset()
            )
            assert (transcript.token_ids.tolist(), transcript.truncated) == ([70, 71], False)
            script[:] = [70, *backbone.prompt.separator, 80, end, 81, 82]
            (translation,) = backbone.decode([session], [Request(audio_end=8)], frozenset())
            assert (translation.token_ids.tolist(), translation.truncated) == ([80], False)


@torch.inference_mode()
@pytest.mark.parametrize("fast", [True, False])
def test_tokens_per_second_limit_transcripts_but_not_translations(
    make: Make, live: Live, fast: bool
) -> None:
    backbone = make(tokens_per_second=5.0, draft=fast, reuse=fast)
    session = live(backbone, seconds=2.0)
    with scripted(backbone) as script:
        script[:] = [*range(70, 90)]
        for frames, tokens in ((5, 2), (8, 4), (25, 10)):  # of 80 ms: 0.4, 0.64 and 2 s
            transcript = ask(backbone, session, Request(Task.TRANSCRIPTION, frames))
            assert transcript == script[:tokens]
        assert len(ask(backbone, session, Request(audio_end=8))) == backbone.max_tokens


@torch.inference_mode()
def test_audio_is_transcribed_once_per_chunk(make: Make, live: Live) -> None:
    """A translation reuses its own transcript, feeds any other one, and is empty without frames."""
    backbone = make()
    session = live(backbone, seconds=1.0, prefix=PREFIX)
    with passes(backbone) as sizes:
        own = backbone.decode([session], [Request()], frozenset())[0]
        first = list(sizes)
        sizes.clear()
        transcription = backbone.decode([session], [TRANSCRIPT], frozenset())[0]
        assert sizes == []
        same = backbone.decode(
            [session], [Request(transcript_ids=transcription.token_ids)], frozenset()
        )[0]
        assert sizes == [transcription.truncated + 1 + len(PREFIX), *[1] * (len(sizes) - 1)]
        assert sizes == first[-len(sizes) :]
        sizes.clear()
        other = transcription.token_ids.flip(0)
        backbone.decode([session], [Request(transcript_ids=other)], frozenset())
        assert sizes[0] == len(opening(backbone, session.audio)[0]) + len(other) + 1 + len(PREFIX)
        assert own.token_ids.tolist() == same.token_ids.tolist()
        sizes.clear()
        session = live(backbone, seconds=0.02, prefix=PREFIX)
        silent = backbone.decode([session] * 2, [TRANSCRIPT, Request()], ALIGNED)
        assert sizes == []
    assert [
        (answer.num_new_tokens, answer.prefix_length, answer.finished) for answer in silent
    ] == [(0, 0, True), (0, 5, True)]
    assert (silent[0].transcript, silent[1].require_alignment().shape) == ("", (5, 1))


@torch.inference_mode()
def test_a_cut_takes_the_transcript_but_for_its_tail(make: Make, live: Live) -> None:
    backbone = make()
    session = live(backbone, seconds=2.0)
    with scripted(backbone) as script, passes(backbone) as sizes:
        end = [*backbone.prompt.separator, backbone.prompt.end]
        # spelled as at the begin of a text, which takes one id more
        tail = backbone.prompt.ids("so")
        script[:] = [70, 71, *tail[1:], *end]
        assert ask(backbone, session, TRANSCRIPT) == [70, 71, *tail[1:]]
        ask(backbone, session, Request(Task.TRANSLATION, 12, torch.tensor([70, 71])))
        cut = Cut(frames=12)
        backbone.forget(session, cut)
        session.forget(cut)
        script[:] = [*tail, *end]
        sizes.clear()
        assert ask(backbone, session, TRANSCRIPT) == tail
        assert len(sizes) == 1
        ask(backbone, session, Request(transcript_ids=torch.tensor([90])))
        backbone.forget(session, Cut(tokens=1))
        assert session.backbone_state.current is not None
        backbone.forget(session, cut)
        assert (session.backbone_state.transcript, session.backbone_state.draft) == (None, [])


@torch.inference_mode()
@pytest.mark.parametrize("beams", [1, 3])
def test_a_batch_is_each_stream_alone(make: Make, live: Live, beams: int) -> None:
    """Streams of different ages, stages, drafts and prefixes."""
    searching = SearchConfig(beams=beams)
    for seed in range(3):
        backbone = make(seed=seed, search=searching)
        plan = [
            (1.0, [], [TRANSCRIPT, Request(), TRANSCRIPT]),
            (2.3, PREFIX, [Request(Task.TRANSCRIPTION, 9), TRANSCRIPT, Request(max_words=2)]),
            (0.01, PREFIX, [TRANSCRIPT, Request(), Request()]),
            (
                1.6,
                PREFIX[:2],
                [Request(audio_end=11), Request(transcript_ids=torch.tensor([70, 80])), TRANSCRIPT],
            ),
            (
                1.9,
                PREFIX[:1],
                [
                    Request(Task.TRANSCRIPTION, 20),
                    Request(Task.TRANSCRIPTION, 5),
                    Request(audio_end=5),
                ],
            ),
        ]
        together = [
            live(backbone, seconds=seconds, prefix=prefix, seed=seed) for seconds, prefix, _ in plan
        ]
        alone = [
            live(backbone, seconds=seconds, prefix=prefix, seed=seed) for seconds, prefix, _ in plan
        ]
        for turn in range(3):
            asked = [requests[turn] for *_, requests in plan]
            for index, answer in enumerate(backbone.decode(together, asked, ALIGNED)):
                single = backbone.decode([alone[index]], [asked[index]], ALIGNED)[0]
                assert answer.token_ids.tolist() == single.token_ids.tolist()
                assert answer.transcript == single.transcript
                assert (answer.finished, answer.truncated) == (single.finished, single.truncated)
                if asked[index].task is Task.TRANSLATION:
                    torch.testing.assert_close(
                        answer.alignment, single.alignment, rtol=0, atol=1e-6
                    )


@torch.inference_mode()
@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("query", ["predicting", "own"])
def test_alignment_is_the_layers_own_attention(
    make: Make, live: Live, reuse: bool, beams: int, query: str
) -> None:
    """Of prefix and new tokens, whether the speech was fed in the same pass or before."""
    alignment = AlignmentConfig(layer=1, heads=[0, 3], query=query)
    backbone = make(alignment=alignment, reuse=reuse, search=SearchConfig(beams=beams))
    session = live(backbone, seconds=1.6, prefix=PREFIX)
    transcript = ask(backbone, session, TRANSCRIPT)
    hypothesis = backbone.decode([session], [Request()], ALIGNED)[0]
    assert hypothesis.num_new_tokens > 1
    assert hypothesis.num_frames == 20
    before = [*transcript, *backbone.prompt.separator]
    text = PREFIX + hypothesis.token_ids.tolist()
    rows = transformers_own(backbone, session.audio, before + text)[1][1][
        len(before) :, [0, 3]
    ].mean(dim=1)
    own = [query == "own"] * len(text)
    if hypothesis.truncated:  # the last one has not been fed
        own[-1] = False
    expected = torch.stack([rows[i + later] for i, later in enumerate(own)])
    torch.testing.assert_close(
        hypothesis.alignment, expected.to(hypothesis.alignment), rtol=0, atol=2e-6
    )


@torch.inference_mode()
def test_beams_are_those_of_transformers(make: Make, live: Live) -> None:
    """From keys and values of the transcript on."""
    differ = 0
    for seed in range(4):
        answer_ids = []
        for beams in (1, 4):
            backbone = make(seed=seed, search=SearchConfig(beams=beams))
            session = live(backbone, seconds=1.6, seed=seed)
            before = [*ask(backbone, session, TRANSCRIPT), *backbone.prompt.separator]
            answer_ids.append(ask(backbone, session, Request()))
        embed = backbone.model.get_input_embeddings()
        prompt = torch.cat([opening(backbone, session.audio)[0], embed(torch.tensor(before))])
        theirs = backbone.model.generate(
            inputs_embeds=prompt[None],
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=backbone.max_tokens,
            num_beams=4,
            eos_token_id=backbone.ends,
            pad_token_id=backbone.prompt.end,
            suppress_tokens=[backbone.prompt.audio],
        )[0].tolist()
        assert answer_ids[1] == [token for token in theirs if token not in backbone.ends]
        differ += answer_ids[0] != answer_ids[1]
    assert differ


@torch.inference_mode()
def test_no_more_than_the_words_asked_for(make: Make, live: Live) -> None:
    backbone = make()
    session = live(backbone, seconds=1.6, prefix=backbone.prompt.translation("so")[:-1])
    with scripted(backbone) as script:
        script[:] = (
            backbone.prompt.transcript("a")
            + session.prefix_ids.tolist()
            + backbone.prompt.translation("ab cd ef")
        )
        full = backbone.decode([session], [Request()], frozenset())[0]
        some = backbone.decode([session], [Request(max_words=2)], frozenset())[0]
    assert backbone.text(full.token_ids.tolist()) == " ab cd ef"
    assert (
        backbone.text(some.token_ids.tolist()),
        some.tokens_in_first_words(2),
        some.finished,
    ) == (" ab cd ", 6, False)


@contextmanager
def scripted(backbone: ChainOfThought) -> Iterator[list[int]]:
    """The listed ids are the model's tokens after the prompt of its one stream, for any audio."""
    script: list[int] = []
    model, begins = backbone.model, [0]
    assistant = model.get_input_embeddings()(
        torch.tensor(backbone.tokenizer.convert_tokens_to_ids("<|assistant|>"))
    )

    call = FastLayers.__call__

    def placed(layers: FastLayers, embeddings: Tensor, positions: Tensor, *given: Any) -> Tensor:
        here = (embeddings[0] == assistant).all(dim=1).nonzero().flatten()
        if len(here):
            begins[:] = [int(positions[0, here[0]])]
        hidden = call(layers, embeddings, positions, *given)
        hidden[..., 0] = positions - begins[0]
        return hidden

    class Head(torch.nn.Module):
        def forward(self, hidden: Tensor) -> Tensor:
            places = hidden[..., 0].long().clamp(0, len(script) - 1)
            return torch.nn.functional.one_hot(
                torch.tensor(script)[places], len(backbone.tokenizer)
            ).double()

    head = model.lm_head
    model.lm_head = Head()
    try:
        with patch.object(FastLayers, "__call__", placed):
            yield script
    finally:
        model.lm_head = head


@torch.inference_mode()
@pytest.mark.parametrize("draft", [True, False])
def test_transcripts_are_aligned_on_request(draft: bool, make: Make, live: Live) -> None:
    backbone = make(draft=draft, end_scale=1.0)
    lengths = (0.8, 0.0, 1.9)
    sessions = [live(backbone, seconds=seconds, seed=3) for seconds in lengths]
    requests = [TRANSCRIPT] * len(lengths)
    plain = backbone.decode(sessions, requests, frozenset())
    aligned = backbone.decode(sessions, requests, ALIGNED)
    for session, one, other in zip(sessions, plain, aligned, strict=True):
        ids = one.token_ids.tolist()
        assert one.alignment is None
        assert other.token_ids.tolist() == ids
        if not ids:
            assert other.require_alignment().shape == (0, 1)
            continue
        _, attention = transformers_own(backbone, session.audio, ids)
        expected = attention[1, : len(ids)].mean(dim=1)  # rows that predict the tokens
        rows = other.require_alignment()
        torch.testing.assert_close(rows, expected.to(rows), rtol=0, atol=2e-6)
    assert [len(answer.token_ids) > 0 for answer in aligned] == [True, False, True]


@torch.inference_mode()
def test_another_context_is_as_if_it_had_been_there(make: Make, live: Live) -> None:
    """No transcript, keys or values of the last context remain."""
    context = Context(text="so", terms=(Term("a", "b"),))
    backbone = make()
    fresh = live(backbone, seconds=1.0, prefix=PREFIX)
    fresh.context = context
    changed = live(backbone, seconds=1.0, prefix=PREFIX)
    plain = ask(backbone, changed, Request())
    changed.context = context
    backbone.change_context(changed)
    for request in (TRANSCRIPT, Request()):
        assert ask(backbone, changed, request) == ask(backbone, fresh, request)
    assert ask(backbone, changed, Request()) != plain
