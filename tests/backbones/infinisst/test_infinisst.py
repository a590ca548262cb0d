import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.backbones.infinisst.turns import END, GREEDY, NeverEnding, turn
from tests.fixtures.searches import ScoredSearch
from tests.fixtures.shapes import ENCODER, text_shape
from zoo.backbones.architectures.speech_llm.data import Batch, collate
from zoo.backbones.architectures.speech_llm.prompt import LEAN, Trajectory
from zoo.backbones.decoding.teacher_forcing import IGNORED
from zoo.backbones.encoders.wav2vec2.encoder import CHUNK_SAMPLES, EncoderConfig
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.backbones.infinisst.search import TurnSearchConfig
from zoo.backbones.infinisst.window import WindowConfig
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.types import Hypothesis, Instance, Request, SpeechChunk
from zoo.streaming.session import Session
from zoo.systems.base import StreamingSystem

Make = Callable[..., InfiniSST]
Stream = Callable[..., dict[str, Instance]]
Noise = Callable[..., Tensor]
MakeSystem = Callable[..., StreamingSystem]


def open_session(make_system: MakeSystem, backbone: InfiniSST) -> Session:
    return make_system(backbone).open("talk")


def dialogue(
    backbone: InfiniSST, blocks: list[int], hypotheses: list[Hypothesis], finished: list[bool]
) -> Trajectory:
    """The trajectory that a stream has lived; no loss on ends that the model did not write."""
    ids = backbone.prompt.instruction(source=language("en"), target=language("de"), multiplier=1)
    labels = [IGNORED] * len(ids)
    for size, hypothesis, ended in zip(blocks, hypotheses, finished, strict=True):
        prompt, answer = backbone.prompt.turn(size), hypothesis.token_ids.tolist()
        ids += [*prompt, *answer, END]
        labels += [IGNORED] * len(prompt) + answer + [END if ended else IGNORED]
    return Trajectory(
        ids, labels, [place for place, token in enumerate(ids) if token == backbone.prompt.speech]
    )


class Recording(ScoredSearch):
    """Greedy search that keeps the log-probability of all it chose."""

    def scores(self, log_probs: Tensor) -> Tensor:
        CHOSEN.append(float(log_probs.max()))
        ENDS.append(int(log_probs.argmax()) == END)
        return log_probs


CHOSEN: list[float] = []
ENDS: list[bool] = []


@pytest.mark.parametrize("multiplier", [1, 2])
def test_the_training_loss_equals_the_loss_of_streaming(
    make: Make, make_system: MakeSystem, noise: Noise, multiplier: int
) -> None:
    search = Recording(beams=1, no_repeat_ngram=0, repetition_penalty=1.0, tokens_per_chunk=4)
    backbone, signal = make(search=search, end_scale=6.0), noise(0.96 * 11)
    session, hypotheses, finished, blocks = open_session(make_system, backbone), [], [], []
    CHOSEN.clear()
    for block in signal.split(CHUNK_SAMPLES * multiplier):
        hypotheses.append(turn(backbone, session, block))
        finished.append(ENDS[-1])
        blocks.append(block.numel() // CHUNK_SAMPLES)
    assert any(finished)
    assert len({hypothesis.num_new_tokens for hypothesis in hypotheses}) > 1
    lived = dialogue(backbone, blocks, hypotheses, finished)
    output = backbone(collate([signal], [lived], multiplier=multiplier, padding=0))
    assert output.targets.numel() == len(CHOSEN)
    torch.testing.assert_close(
        float(output.loss.detach()) * len(CHOSEN), -sum(CHOSEN), rtol=0, atol=1e-5
    )
    chosen = output.logits.log_softmax(-1).gather(1, output.targets[:, None])[:, 0]
    torch.testing.assert_close(chosen, torch.tensor(CHOSEN, dtype=torch.float64), rtol=0, atol=1e-5)


@pytest.mark.parametrize("beams", [1, 4])
def test_one_chunk_of_full_length_is_offline_decoding(
    make: Make, make_system: MakeSystem, noise: Noise, beams: int
) -> None:
    backbone, signal = (
        make(search=dataclasses.replace(GREEDY, beams=beams), end_scale=1.2),
        noise(3.0),
    )
    prompt = backbone.prompt
    hypothesis = turn(backbone, open_session(make_system, backbone), signal, final=True)
    padded = F.pad(signal, (0, 4 * CHUNK_SAMPLES - signal.numel())).double()
    instruction = prompt.instruction(source=language("en"), target=language("de"), multiplier=4)
    ids = torch.tensor(instruction + prompt.turn(4))
    with torch.inference_mode():
        embeddings = backbone.decoder.get_input_embeddings()(ids)
        embeddings[ids == prompt.speech] = backbone.adapter(
            backbone.encoder(padded[None], 4).hidden
        )[0]
        expected = backbone.decoder.generate(
            inputs_embeds=embeddings[None],
            attention_mask=torch.ones(1, len(ids), dtype=torch.long),
            max_new_tokens=20,
            num_beams=beams,
            do_sample=False,
            eos_token_id=END,
            pad_token_id=0,
        )[0].tolist()
    assert hypothesis.num_new_tokens > 1
    assert hypothesis.token_ids.tolist() == [token for token in expected if token != END]


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize(("unit", "capture"), [("tokens", "static"), ("turns", "off")])
def test_a_batch_gives_each_stream_its_words_alone(
    make: Make, stream: Stream, noise: Noise, beams: int, unit: str, capture: str
) -> None:
    search = TurnSearchConfig(
        beams=beams, no_repeat_ngram=4, repetition_penalty=1.2, tokens_per_chunk=4
    )
    window = WindowConfig(size=60, unit=unit)
    backbone = make(search=search, window=window)
    batched = make(search=search, window=window, capture=capture)
    talks = {
        str(seconds): noise(seconds, seed) for seed, seconds in enumerate((7.3, 2.1, 9.6, 5.0))
    }
    together = stream(batched, talks, multiplier=2, batch_size=3)
    reverse = stream(backbone, dict(reversed(talks.items())), multiplier=2)
    for name in talks:
        assert together[name].text
        assert together[name].text == reverse[name].text
        assert together[name].delays == reverse[name].delays
    assert len({instance.text for instance in together.values()}) == len(talks)


def test_what_is_kept_does_not_grow(make: Make, make_system: MakeSystem, noise: Noise) -> None:
    backbone = make(window=WindowConfig(size=80))
    session = open_session(make_system, backbone)
    sizes = set()
    for index in range(12):
        turn(backbone, session, noise(0.96, seed=index))
        state = session.backbone_state
        sizes.add((state.encoder.cache.shape[3], session.audio.numel()))
        assert state.num_cached <= state.instruction + 80 + len(backbone.prompt.turn(1)) + 1 + 5
        assert all(position >= state.dropped for position, _ in state.target_tokens[-3:])
    assert sizes == {(48, 0)}
    assert session.audio_start == 12 * CHUNK_SAMPLES
    assert len(state.target_tokens) < 80


class Silent(ScoredSearch):
    def scores(self, log_probs: Tensor) -> Tensor:
        return log_probs.index_fill(1, torch.tensor([END]), 0.0)


@pytest.mark.parametrize("beams", [1, 2])
def test_a_turn_that_does_not_end_is_closed(
    make: Make, make_system: MakeSystem, noise: Noise, beams: int
) -> None:
    backbone = make(search=NeverEnding(beams=beams))
    session = open_session(make_system, backbone)
    first = turn(backbone, session, noise(0.96 * 2))
    assert (first.num_new_tokens, first.finished, first.prefix_length) == (20, True, 0)
    assert END not in first.token_ids
    assert session.backbone_state.pending == [int(first.token_ids[-1]), END]
    assert (
        session.backbone_state.num_cached
        == session.backbone_state.instruction + len(backbone.prompt.turn(2)) + 19
    )
    assert turn(backbone, session, noise(0.96)).num_new_tokens == 10
    assert session.backbone_state.turns == [
        len(backbone.prompt.turn(2)) + 19,
        2 + len(backbone.prompt.turn(1)) + 9,
    ]


def test_silence_of_the_model_is_an_empty_turn(
    make: Make, make_system: MakeSystem, noise: Noise
) -> None:
    backbone = make(search=Silent(beams=1))
    session = open_session(make_system, backbone)
    for seed in range(2):
        hypothesis = turn(backbone, session, noise(0.96, seed))
        assert (hypothesis.num_new_tokens, hypothesis.word_starts.numel(), hypothesis.finished) == (
            0,
            0,
            True,
        )
    assert session.backbone_state.turns == [
        len(backbone.prompt.turn(1)),
        1 + len(backbone.prompt.turn(1)),
    ]
    assert session.backbone_state.pending == [END]


def test_audio_short_of_a_chunk_waits_and_the_last_piece_is_filled_up(
    make: Make, make_system: MakeSystem, noise: Noise
) -> None:
    backbone, signal = make(), noise(0.96 * 2.5)
    pieces, exact = open_session(make_system, backbone), open_session(make_system, backbone)
    assert turn(backbone, pieces, signal[:5000]).num_new_tokens == 0
    assert (pieces.audio.numel(), pieces.backbone_state.num_cached) == (5000, 0)
    first = turn(backbone, pieces, signal[5000 : CHUNK_SAMPLES + 700])
    assert pieces.audio.numel() == 700
    assert torch.equal(first.token_ids, turn(backbone, exact, signal[:CHUNK_SAMPLES]).token_ids)
    last = turn(backbone, pieces, signal[CHUNK_SAMPLES + 700 :], final=True)
    rest = F.pad(signal[CHUNK_SAMPLES:], (0, CHUNK_SAMPLES // 2))
    assert torch.equal(last.token_ids, turn(backbone, exact, rest).token_ids)
    assert last.num_new_tokens > 0
    assert pieces.received_samples == signal.numel()
    torch.testing.assert_close(
        pieces.backbone_state.encoder.cache, exact.backbone_state.encoder.cache, rtol=0, atol=1e-12
    )


def test_a_stream_without_audio_writes_nothing_in_a_batch_with_audio(
    make: Make, make_system: MakeSystem, noise: Noise
) -> None:
    backbone, signal = make(), noise(0.96)
    sessions = [open_session(make_system, backbone) for _ in range(2)]
    sessions[0].receive(SpeechChunk(torch.zeros(0), final=True))
    sessions[1].receive(SpeechChunk(signal))
    silent, speaking = backbone.decode(sessions, [Request(), Request()], frozenset())
    assert (silent.num_new_tokens, silent.finished) == (0, True)
    assert speaking.token_ids.equal(
        turn(backbone, open_session(make_system, backbone), signal).token_ids
    )


def test_writing_part_of_a_turn_is_refused(
    make: Make, make_system: MakeSystem, noise: Noise
) -> None:
    backbone = make()
    session = open_session(make_system, backbone)
    hypothesis = turn(backbone, session, noise(0.96))
    assert hypothesis.num_new_tokens > 0
    with pytest.raises(ZooError, match="turn_taking"):
        backbone.commit(session, hypothesis, 0)


def test_words_begin_at_spaces_and_at_the_turn(make: Make) -> None:
    backbone = make()
    assert [backbone._starts_word(token, language("de")) for token in (8 + 32, 8 + 188 + 32)] == [
        False,
        True,
    ]
    assert backbone._starts_word(8 + 32, language("zh"))


def small_batch(backbone: InfiniSST) -> Batch:
    languages = {"source": language("en"), "target": language("de"), "multiplier": 1}
    long = backbone.prompt.trajectory(["a b", "", "c"], chunks=[1, 1, 1], **languages)
    short = backbone.prompt.trajectory(["xyz"], chunks=[1], **languages)
    generator = torch.Generator().manual_seed(0)
    samples = [
        torch.randn(3 * CHUNK_SAMPLES, generator=generator),
        torch.randn(CHUNK_SAMPLES, generator=generator),
    ]
    return collate(samples, [long, short], multiplier=1, padding=0)


def test_loss_covers_labels_only_and_padding_does_not_matter(make: Make) -> None:
    backbone = make()
    batch = small_batch(backbone)
    output = backbone(batch)
    assert output.targets.tolist() == [
        *backbone.prompt.answer("a b"),
        END,
        *backbone.prompt.answer("c"),
        *backbone.prompt.answer("xyz"),
    ]
    assert output.logits.shape == (len(output.targets), 264)
    padded = batch.input_ids[1].flip(0).ne(0).int().argmax()
    single = collate(
        [batch.audio[1, :CHUNK_SAMPLES]],
        [
            Trajectory(
                *(
                    row[: len(batch.input_ids[1]) - padded].tolist()
                    for row in (batch.input_ids[1], batch.labels[1])
                ),
                [place for place in batch.speech_positions[1].tolist() if place >= 0],
            )
        ],
        multiplier=1,
        padding=0,
    )
    torch.testing.assert_close(backbone(single).logits, output.logits[-4:], rtol=0, atol=1e-5)


def test_frames_of_an_encoder_that_has_been_run_stand_for_samples(make: Make) -> None:
    backbone = make()
    batch = small_batch(backbone)
    frames = dataclasses.replace(batch, audio=backbone.encode_training(batch.audio, 1).hidden)
    assert torch.equal(backbone(frames).logits, backbone(batch).logits)


@pytest.mark.parametrize("parts", [["encoder", "adapter"], ["adapter", "decoder"]])
def test_only_the_named_parts_are_trained(make: Make, parts: list[str]) -> None:
    backbone = make()
    backbone.trainable(parts)
    batch = small_batch(backbone)
    backbone(batch).loss.backward()
    for name, child in backbone.named_children():
        gradients = [parameter.grad is not None for parameter in child.parameters()]
        assert all(gradients) if name in parts else not any(gradients)
    assert backbone.encode_training(batch.audio, 1).hidden.requires_grad == ("encoder" in parts)
    backbone.trainable(["encoder", "adapter", "decoder"])


def test_training_under_bfloat16_autocast(make: Make) -> None:
    backbone = make(dtype="float32")
    batch = small_batch(backbone)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = backbone(batch)
    mixed.loss.backward()
    assert mixed.loss.dtype == torch.float32
    torch.testing.assert_close(mixed.loss, backbone(batch).loss, rtol=0.02, atol=0)


@pytest.mark.parametrize("tied", [True, False])
def test_a_saved_checkpoint_is_read_back(make: Make, tmp_path: Path, tied: bool) -> None:
    decoder = make().decoder.config.to_diff_dict() | {"tie_word_embeddings": tied}
    fields = {
        name: value
        for name, value in decoder.items()
        if name not in ("architectures", "dtype", "rope_parameters")
    }
    backbone = make(decoder=fields, dtype="float32")
    backbone.save(tmp_path, torch.bfloat16)
    loaded = make(
        decoder=fields,
        tokenizer=None,
        checkpoint=str(tmp_path),
        dtype="float32",
        seed=9,
        end_scale=1.0,
    )
    assert {name for name, _ in loaded.named_parameters()} == {
        name for name, _ in backbone.named_parameters()
    }
    for (_, before), (_, after) in zip(
        backbone.named_parameters(), loaded.named_parameters(), strict=True
    ):
        assert torch.equal(before.bfloat16().float(), after)
    assert (loaded.decoder.lm_head.weight is loaded.decoder.model.embed_tokens.weight) == tied
    assert not any(path.suffix in (".bin", ".pt", ".pkl") for path in tmp_path.iterdir())


def test_a_checkpoint_that_does_not_fit_is_refused(make: Make, tmp_path: Path) -> None:
    make().save(tmp_path)
    deeper = dataclasses.replace(ENCODER, layers=3)
    with pytest.raises(ZooError, match=r"does not fit.*encoder\.encoder\.layers\.2"):
        make(encoder=deeper, checkpoint=str(tmp_path))
    with pytest.raises(ZooError, match=r"no model\.safetensors"):
        make(checkpoint=str(tmp_path / "nothing"))


def test_a_pretrained_decoder_is_read_from_a_folder(make: Make, tmp_path: Path) -> None:
    source = make(seed=4)
    source.decoder.save_pretrained(tmp_path)
    loaded = make(decoder=str(tmp_path), seed=5, end_scale=1.0)
    for name, tensor in source.decoder.state_dict().items():
        assert torch.equal(loaded.decoder.state_dict()[name], tensor)


def test_qwen_streams_too(make: Make, stream: Stream, noise: Noise) -> None:
    backbone = make(
        decoder=text_shape(model_type="qwen2"),
        window=WindowConfig(size=40),
        search=TurnSearchConfig(beams=2, tokens_per_chunk=4),
    )
    talks = {"a": noise(6.0), "b": noise(3.0, seed=1)}
    assert (
        stream(backbone, talks)["a"].text == stream(backbone, talks, batch_size=2)["a"].text != ""
    )


def test_a_tokenizer_must_come_from_somewhere() -> None:
    with pytest.raises(ZooError, match="tokenizer"):
        InfiniSST(
            encoder=EncoderConfig(), decoder="meta-llama/Llama-3.1-8B-Instruct", template=LEAN
        )


def test_rope_that_changes_with_length_is_refused(make: Make) -> None:
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
    with pytest.raises(ZooError, match="dynamic"):
        make(decoder=text_shape(model_type="llama", shared=4, rope_parameters=rope))


@pytest.mark.parametrize("beams", [1, 4])
def test_weights_and_audio_that_give_no_finite_numbers_are_one_error(
    make: Make, stream: Stream, noise: Noise, beams: int
) -> None:
    search = dataclasses.replace(GREEDY, beams=beams)
    broken = make(search=search)
    with torch.no_grad():
        broken.decoder.model.norm.weight.fill_(torch.nan)
    with pytest.raises(ZooError, match="The weights give no finite numbers"):
        stream(broken, {"a": noise(2.0)})

    with pytest.raises(ZooError, match="The weights give no finite numbers"):
        stream(make(search=search, dtype="float32"), {"a": 1e30 * noise(2.0)})


def test_the_padding_of_a_batch_is_not_encoded_with_an_incomplete_last_turn(
    make: Make, noise: Noise
) -> None:
    """Three chunks at m = 2: the second block of the encoder has one chunk, also in a batch."""
    backbone = make()
    en, de = language("en"), language("de")

    def batch(*sizes: list[int]) -> Batch:
        dialogues = [
            backbone.prompt.trajectory(
                ["ab"] * len(turns), chunks=turns, source=en, target=de, multiplier=2
            )
            for turns in sizes
        ]
        waves = [noise(0.96 * sum(turns)).double() for turns in sizes]
        return collate(waves, dialogues, multiplier=2, padding=END)

    alone = backbone(batch([2, 1])).logits
    together = backbone(batch([2, 1], [2, 2, 1])).logits
    torch.testing.assert_close(together[: len(alone)], alone, rtol=0, atol=1e-9)
