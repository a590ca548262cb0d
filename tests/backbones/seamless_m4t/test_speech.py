"""Against Transformers on a full utterance: equal text, units and wave; reused states are equal."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import SeamlessM4TFeatureExtractor, SeamlessM4TForSpeechToSpeech

from tests.backbones.seamless_m4t.conftest import Load, noise, opened
from tests.fixtures.tiny_checkpoints import KINDS
from zoo.backbones.base import Speaking
from zoo.backbones.decoding.search import SearchConfig
from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.types import Capability, Hypothesis, Request
from zoo.streaming.session import Session, SpeechRequest

SPEECH = frozenset({Capability.SPEECH})
GERMAN = language("de")
UNIT_ONE = torch.tensor([1])


def looked(backbone: SeamlessM4TSpeech, *sessions: Session) -> list[Hypothesis]:
    return backbone.decode(sessions, [Request()] * len(sessions), SPEECH)


def request_for(
    session: Session, hypothesis: Hypothesis, tokens: int | None = None
) -> SpeechRequest:
    return SpeechRequest(
        session, hypothesis, hypothesis.num_new_tokens if tokens is None else tokens, ""
    )


@torch.inference_mode()
def test_a_full_utterance_equals_generate(folder: Path, load: Load) -> None:
    backbone = load(max_tokens=30, unit_layer=1)
    network = SeamlessM4TForSpeechToSpeech.from_pretrained(folder, dtype=torch.float64).eval()
    extractor = SeamlessM4TFeatureExtractor.from_pretrained(folder)
    assert isinstance(backbone, Speaking)
    closed, ended = set(), set()
    for seed in range(5):
        features = 182 + 20 * seed
        inputs = extractor(
            noise(features, seed).numpy(), sampling_rate=16_000, return_tensors="pt"
        )["input_features"]
        expected: Any = network.generate(
            inputs.double(),
            tgt_lang="deu",
            return_intermediate_token_ids=True,
            text_max_new_tokens=30,
            text_no_repeat_ngram_size=2,
            text_suppress_tokens=[0],
            speech_max_new_tokens=41,
        )
        session = opened(backbone, features, seed=seed)
        [hypothesis] = looked(backbone, session)
        text = [backbone.languages.start, 227, *hypothesis.token_ids.tolist()]
        close = not hypothesis.truncated
        assert [*text, *([backbone.end] if close else [])] == expected.sequences[0].tolist()
        [units] = backbone.generate_units([request_for(session, hypothesis)], close=close)
        expected_units = expected.unit_sequences[0, 2:] - 4
        assert units.ids.tolist() == [unit for unit in expected_units.tolist() if unit != -2][:40]
        assert units.truncated == (expected_units[-1] != -2)
        # Transformers replaces the end by unit 1 and synthesises it
        [voiced] = backbone.vocode([torch.where(expected_units == -2, 1, expected_units)], GERMAN)
        torch.testing.assert_close(voiced.samples, expected.waveform[0].float(), rtol=0, atol=1e-5)
        assert len(voiced.samples) == 320 * int(voiced.durations.sum())
        closed.add(close)
        ended.add(units.truncated)
    assert closed == {True, False}
    assert False in ended


@torch.inference_mode()
def test_beams_over_units_equal_generate(folder: Path, load: Load) -> None:
    """The best of three beams, which differs from greedy units for at least one utterance."""
    backbone = load(unit_search=SearchConfig(beams=3))
    greedy = load()
    network = SeamlessM4TForSpeechToSpeech.from_pretrained(folder, dtype=torch.float64).eval()
    prompt = [network.config.t2u_eos_token_id, backbone.speaker.languages.units["deu"]]
    differs = []
    for seed in range(5):
        session = opened(backbone, 182 + 20 * seed, seed=seed)
        [hypothesis] = looked(backbone, session)
        request = request_for(session, hypothesis)
        [states] = backbone.fed([request], close=False)
        [units] = backbone.generate_units([request], close=False)
        expected = network.t2u_model.generate(
            inputs_embeds=states[None],
            decoder_input_ids=torch.tensor([prompt]),
            num_beams=3,
            max_new_tokens=41,
            suppress_tokens=backbone.speaker._control,
        )
        assert units.ids.tolist() == [int(unit) - 4 for unit in expected[0, 2:42] if unit > 3]
        assert units.attention.shape == (len(units.ids), len(states))

        [other] = greedy.generate_units([request], close=False)
        differs.append(units.ids.tolist() != other.ids.tolist())
    assert any(differs)


def test_units_have_no_texts_to_suppress(load: Load) -> None:
    with pytest.raises(ZooError, match="suppress must be empty"):
        load(unit_search=SearchConfig(suppress=["<unk>"]))


@pytest.mark.parametrize("beams", [1, 3])
@torch.inference_mode()
def test_states_are_those_of_the_whole_text_in_one_pass(
    load: Load, theirs: Any, beams: int
) -> None:
    """Streams of different lengths, complete and truncated hypotheses, open and closed texts."""
    backbone = load(search=SearchConfig(beams=beams, no_repeat_ngram=2), max_tokens=7)
    prefixes = [(), (11, 39, 77, 12), (100, 40), (152,)]
    sessions = [
        opened(backbone, 120 + 30 * seed, seed=seed, prefix=prefix)
        for seed, prefix in enumerate(prefixes)
    ]
    sessions.append(opened(backbone, 200, seed=9, target="fr"))
    for session, hypothesis in zip(sessions, looked(backbone, *sessions), strict=True):
        fed = [
            *backbone.opening(session, Request().task),
            *session.prefix_ids.tolist(),
            *hypothesis.token_ids.tolist(),
        ]
        assert hypothesis.decoder_states is not None
        assert len(hypothesis.decoder_states) == len(fed)
        for tokens in range(1, hypothesis.num_new_tokens + 1):
            before = fed[: len(fed) - hypothesis.num_new_tokens + tokens]
            [end] = backbone._ends([request_for(session, hypothesis, tokens)])
            expected = theirs.text_decoder(
                input_ids=torch.tensor([[*before, backbone.end]]),
                encoder_hidden_states=session.backbone_state.memory[None],
            ).last_hidden_state[0]
            torch.testing.assert_close(
                hypothesis.decoder_states[: len(before)], expected[:-1], rtol=0, atol=1e-9
            )
            torch.testing.assert_close(end, expected[-1:], rtol=0, atol=1e-9)


def test_no_states_are_computed_without_speech_output(backbone: SeamlessM4TSpeech) -> None:
    session = opened(backbone)
    [hypothesis] = backbone.decode([session], [Request()], frozenset({Capability.ALIGNMENT}))
    assert hypothesis.decoder_states is None
    assert session.backbone_state.branch is None


def test_speaking_runs_neither_encoder_nor_text_again(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for one position of the text decoder: the end."""
    backbone = load()
    sessions = [opened(backbone, seed=seed) for seed in range(3)]
    requests = [
        request_for(*pair, 2) for pair in zip(sessions, looked(backbone, *sessions), strict=True)
    ]
    calls, fed = [], []
    backbone.encoder.register_forward_pre_hook(lambda *_: calls.append(1))
    for layer in backbone.encoder.encoder.layers:
        layer.register_forward_pre_hook(lambda *_: calls.append(1))
    backbone.decoder.register_forward_pre_hook(lambda _, args: fed.append(tuple(args[0].shape)))
    backbone.generate_units(requests, close=False)
    assert (calls, fed) == ([], [])
    backbone.generate_units(requests, close=True)
    assert (calls, fed) == ([], [(3, 1)])


@pytest.mark.parametrize("close", [True, False])
def test_a_batch_is_each_stream_alone(backbone: SeamlessM4TSpeech, close: bool) -> None:
    """Decoded together or apart, with different lengths, languages and writes."""
    shapes: list[tuple[int, str, tuple[int, ...]]] = [
        (182, "de", ()),
        (90, "fr", (11, 39)),
        (240, "de", (152, 6, 10)),
    ]
    sessions = [
        opened(backbone, features, seed=seed, target=target, prefix=prefix)
        for seed, (features, target, prefix) in enumerate(shapes)
    ]
    first, *others = sessions
    hypotheses = [*looked(backbone, first), *looked(backbone, *others)]
    requests = [
        request_for(*pair, 3 + i) for i, pair in enumerate(zip(sessions, hypotheses, strict=True))
    ]
    together = backbone.generate_units(requests, close=close)
    for request, units in zip(requests, together, strict=True):
        session = opened(backbone, seed=0)
        session.audio, session.target_language, session.prefix_ids = (
            request.session.audio,
            request.session.target_language,
            request.session.prefix_ids,
        )
        [hypothesis] = looked(backbone, session)
        [alone] = backbone.generate_units(
            [request_for(session, hypothesis, request.tokens)], close=close
        )
        assert units.ids.tolist() == alone.ids.tolist()
        assert units.truncated == alone.truncated
        torch.testing.assert_close(units.attention, alone.attention, rtol=0, atol=1e-9)
        assert units.attention.shape == (
            len(units.ids),
            2 + request.hypothesis.prefix_length + request.tokens + close,
        )
        torch.testing.assert_close(units.attention.sum(1), torch.ones(len(units.ids)).double())
    assert len({tuple(units.ids.tolist()) for units in together}) == 3


def test_a_layer_that_the_unit_decoder_lacks_is_refused(load: Load) -> None:
    with pytest.raises(ZooError, match="the layers 0 to 1, not 2"):
        load(unit_layer=2).check_speech(language("ro"))


def test_a_language_that_is_written_but_not_spoken_is_refused(backbone: SeamlessM4TSpeech) -> None:
    russian = r"does not speak Russian; choose one of: de, en, es, fr, it, nl, pt, ro, zh\."
    backbone.check_speech(language("ro"))
    with pytest.raises(ZooError, match=russian):
        backbone.check_speech(language("ru"))
    session = opened(backbone, target="ru")
    [hypothesis] = looked(backbone, session)
    with pytest.raises(ZooError, match=russian):
        backbone.generate_units([request_for(session, hypothesis)], close=False)
    with pytest.raises(ZooError, match=russian):
        backbone.vocode([UNIT_ONE], language("ru"))


def test_the_second_version_and_nonsense_are_refused(
    tmp_path: Path, folder: Path, load: Load
) -> None:
    KINDS["seamless_m4t_v2"](tmp_path / "v2")
    with pytest.raises(
        ZooError, match=r"is a SeamlessM4T v2, whose text-to-unit model .* needs a SeamlessM4T v1"
    ):
        load(name=str(tmp_path / "v2"))
    with pytest.raises(
        ZooError, match=r"backbone\.name, or backbone\.config and backbone\.tokenizer"
    ):
        SeamlessM4TSpeech(config={})
    with pytest.raises(ZooError, match="has the voices 0 to 1, not 2"):
        load(voice=2)
    with pytest.raises(ZooError, match="max_units of at least 1, not 0"):
        load(max_units=0)
    KINDS["seamless_m4t"](tmp_path / "text")
    with pytest.raises(ZooError, match="lacks weights of a SeamlessM4TForSpeechToSpeech"):
        load(name=str(tmp_path / "text"))


def test_another_vocoder_is_taken_and_saved(
    tmp_path: Path, folder: Path, load: Load, backbone: Any
) -> None:
    KINDS["seamless_m4t_speech"](tmp_path / "other", seed=3)
    mixed, other = load(vocoder=str(tmp_path / "other")), load(name=str(tmp_path / "other"))
    mixed.save(tmp_path / "saved")
    units = [torch.tensor([3, 1, 4, 1, 5])]
    [spoken], [theirs], [ours], [read] = (
        model.vocode(units, GERMAN)
        for model in (mixed, other, backbone, load(name=str(tmp_path / "saved")))
    )
    assert torch.equal(spoken.samples, theirs.samples)
    assert torch.equal(read.samples, theirs.samples)
    assert not torch.equal(ours.durations, theirs.durations) or not torch.allclose(
        ours.samples, theirs.samples
    )
    sessions = [opened(model) for model in (mixed, backbone)]
    tokens = [
        looked(model, session)[0].token_ids
        for model, session in zip((mixed, backbone), sessions, strict=True)
    ]
    assert tokens[0].tolist() == tokens[1].tolist()


def test_a_vocoder_of_other_units_is_refused(tmp_path: Path, folder: Path, load: Load) -> None:
    config = json.loads((folder / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"unit_hifi_gan_vocab_size": 13}))
    with pytest.raises(ZooError, match="has 13 units, not the 12"):
        load(vocoder=str(tmp_path))


def test_the_text_encoder_is_read_where_it_is_asked_for(
    load: Load, backbone: SeamlessM4TSpeech, caplog: pytest.LogCaptureFixture
) -> None:
    load()
    assert caplog.text == ""  # Transformers would list the weights that are left out
    assert {name for name, _ in backbone.named_children()} == {"encoder", "decoder", "speaker"}
    assert {name for name, _ in load(reader=True).named_children()} == {
        "encoder",
        "decoder",
        "speaker",
        "reader",
    }
