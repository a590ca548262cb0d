"""Training batches of dialogues, the token ``<wait>``, and errors of the objective."""

from itertools import chain
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.backbones.architectures.dialogue.conftest import Maker
from tests.backbones.architectures.dialogue.streams import chunks
from tests.fixtures.streams import white_noise
from tests.fixtures.thinkers import Family
from zoo.backbones.architectures.dialogue.data import DialogueBatch, Stream
from zoo.backbones.architectures.dialogue.dialogue import Dialogue
from zoo.backbones.architectures.dialogue.objective import Dialogues
from zoo.backbones.architectures.dialogue.prompt import DialogueBound, DialogueTemplate
from zoo.backbones.decoding.teacher_forcing import IGNORED
from zoo.backbones.pretrained.lora import LoraConfig
from zoo.base.audio import files as audio
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.talks import Segment, Talk, Target, Word
from zoo.data.robust_segments import RobustSegments

BOUND = DialogueBound(max_turns=3, kept_turns=1)
WORDS = ["", "Guten Morgen.", "", "Das Meer", "ist weit weg.", ""]


@pytest.fixture(scope="module")
def backbone(tiny: Maker) -> Dialogue:
    return tiny(bound=BOUND)


def stream(words: list[str], seed: int = 0) -> Stream:
    return Stream(chunks(len(words), seed=seed), words, language("en"), language("de"))


def labelled(batch: DialogueBatch) -> list[list[int]]:
    """Labels of each dialogue that have a loss."""
    return [row[row != IGNORED].tolist() for row in batch.labels]


def test_only_the_new_answers_of_each_dialogue_have_a_loss(backbone: Dialogue) -> None:
    prompt = backbone.prompt
    batch = backbone.collator()([stream(WORDS)])
    answers = [prompt.answer(words, last=index == 5) for index, words in enumerate(WORDS)]
    assert answers[0] == [prompt.wait, prompt.end]
    assert answers[1] == [*prompt.ids("Guten Morgen."), prompt.end]
    assert answers[5] == [prompt.end]  # the translation has ended, and so has the source
    parts = (answers[:3], answers[3:5], answers[5:])
    assert labelled(batch) == [list(chain.from_iterable(part)) for part in parts]
    assert torch.equal(batch.input_ids[batch.labels >= 0], batch.labels[batch.labels >= 0])
    opening = prompt.instruction(language("en"), language("de"))
    assert all(row[: len(opening)].tolist() == opening for row in batch.input_ids)


def test_training_and_streaming_have_the_same_input(backbone: Dialogue) -> None:
    """The embeddings of the second dialogue are those of a stream with the same turns."""
    inputs: list[Tensor] = []
    hook = backbone.decoder.model.register_forward_pre_hook(
        lambda _, __, given: inputs.append(given["inputs_embeds"]), with_kwargs=True
    )
    batch = backbone.collator()([stream(WORDS)])
    with torch.inference_mode():
        backbone(batch)
        hook.remove()
        speech = backbone._embed_speech(chunks(len(WORDS))[2:5])
        answers = [backbone.prompt.answer(words) for words in WORDS[2:5]]
        ids = backbone.prompt.instruction(language("en"), language("de"))
        pairs = zip(speech, answers, strict=True)
        turns = [torch.cat([backbone._embed_user(one), backbone._embed(two)]) for one, two in pairs]
        expected = torch.cat([backbone._embed(ids), *turns])
    found = inputs[0][1, : len(expected)]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


def test_the_loss_of_a_batch_is_the_mean_over_the_tokens_of_its_streams(
    backbone: Dialogue,
) -> None:
    streams = [stream(WORDS), stream(["Das Meer", ""], seed=1)]
    collate = backbone.collator()
    with torch.no_grad():
        batches = [collate([one]) for one in streams]
        sizes = torch.tensor([int((batch.labels >= 0).sum()) for batch in batches])
        alone = torch.stack([backbone(batch)["loss"] for batch in batches])
        together = backbone(collate(streams))["loss"]
    torch.testing.assert_close(together, (alone * sizes).sum() / sizes.sum(), rtol=0, atol=1e-5)


def test_a_step_trains_encoder_projector_and_adapter(tiny: Maker) -> None:
    backbone = tiny(bound=BOUND, lora=LoraConfig(rank=2, alpha=2, dropout=0.0))
    backbone.trainable(["encoder", "projector", "lora"])
    backbone(backbone.collator()([stream(WORDS)]))["loss"].backward()
    for part in ("encoder", "projector", "lora"):
        gradients = [one.grad for one in backbone.parts()[part] if one.requires_grad]
        assert any(grad is not None and bool(grad.any()) for grad in gradients), part


# ---- the token <wait>


def test_a_tokenizer_without_wait_gets_it(family: Family, tiny: Maker, tmp_path: Path) -> None:
    """Its embedding is the mean of those of the tokens that its text had; an export has it."""
    backbone = tiny()
    assert backbone.prompt.ids("<wait>") == [backbone.prompt.wait]
    family.write(tmp_path / "published")
    loaded = family.dialogue(name=str(tmp_path / "published"), dtype="float64")
    loaded.load()
    before = family.backbone(name=str(tmp_path / "published"), dtype="float64")
    before.load()
    pieces = before.prompt.ids("<wait>")
    assert len(pieces) > 1
    for layer, old in (
        (loaded.model.get_input_embeddings(), before.model.get_input_embeddings()),
        (loaded.model.get_output_embeddings(), before.model.get_output_embeddings()),
    ):
        expected = old.weight[pieces].mean(dim=0)
        torch.testing.assert_close(layer.weight[loaded.prompt.wait], expected)
    loaded.save(tmp_path / "export")
    again = family.dialogue(name=str(tmp_path / "export"), dtype="float64")
    again.load()
    assert again.prompt.wait == loaded.prompt.wait
    assert len(again.tokenizer) == len(loaded.tokenizer)


def test_a_token_of_the_tokenizer_can_be_the_wait(tiny: Maker) -> None:
    template = tiny().template
    plain = tiny(template=DialogueTemplate(audio=template.audio, wait="<|eot_id|>"))
    assert len(plain.tokenizer) == len(tiny().tokenizer) - 1
    assert plain.prompt.wait == plain.tokenizer.convert_tokens_to_ids("<|eot_id|>")


def test_wait_is_a_token_of_its_own(tiny: Maker) -> None:
    template = tiny().template
    with pytest.raises(ZooError, match=r"<\|im_end\|>' as wait and as another token"):
        tiny(template=DialogueTemplate(audio=template.audio, wait=template.end))


def test_templates_with_unknown_names_or_without_wait_are_refused() -> None:
    with pytest.raises(ZooError, match=r"may have \{source\} and \{target\}"):
        DialogueTemplate(instruction="{language}")
    with pytest.raises(ZooError, match=r"template\.wait"):
        DialogueTemplate(wait=" ")


# ---- the objective


def talk(folder: Path, *, aligned: bool = True) -> Talk:
    """Four seconds with a word per second; the second word is translated after the third."""
    audio.write(folder / "talk.wav", white_noise(4 * 16_000, scale=0.1))
    words = tuple(Word(word, index + 0.1, index + 0.8) for index, word in enumerate("abcd"))
    target = Target("A C B D", ("A", "C", "B", "D"), ((0,), (2,), (1,), (3,)) if aligned else ())
    segment = Segment(0.0, 4.0, "a b c d", words, {"de": target})
    return Talk("talk", folder / "talk.wav", 4.0, "en", (segment,))


def test_the_words_of_a_turn_are_those_of_the_speech_so_far(
    backbone: Dialogue, tmp_path: Path
) -> None:
    one = talk(tmp_path)
    objective = Dialogues(source_language="en", target_language="de")
    objective.prepare([one], backbone)
    segments = RobustSegments([one], chunk_seconds=1.0)
    prompt = backbone.prompt
    batch = objective.batch([segments.at(one, 0.0, 4), segments.at(one, 0.0, 4, multiplier=2)])
    waits, end = [prompt.wait, prompt.end], prompt.end
    assert labelled(batch) == [
        [*prompt.ids("A"), end, *waits, *prompt.ids("C B"), end],  # three turns, then one more
        [*prompt.ids("D"), end],
        [*prompt.ids("A"), end, *prompt.ids("C B D"), end],
    ]
    assert objective.losses(backbone, batch)["loss"].isfinite()


def test_a_delay_leaves_the_newest_words_to_the_next_turn(
    backbone: Dialogue, tmp_path: Path
) -> None:
    """Words end 0.2 s before a turn does. The last turn, which ends the source, has all of them."""
    one = talk(tmp_path)
    segments = RobustSegments([one], chunk_seconds=1.0)
    words = {}
    for delay in ((0.0, 0.1), (0.3, 0.4), (0.0, 0.4)):
        objective = Dialogues(source_language="en", target_language="de", delay=delay)
        streams = [objective._stream(segments.at(one, 0.0, 4)) for _ in range(2)]
        assert streams[0].words == streams[1].words  # the same delays each time
        words[delay] = streams[0].words
    assert words[0.0, 0.1] == ["A", "", "C B", "D"]
    assert words[0.3, 0.4] == ["", "A", "", "C B D"]
    assert " ".join(words[0.0, 0.4]).split() == ["A", "C", "B", "D"]


@pytest.mark.parametrize("delay", [(-0.1, 0.0), (0.5, 0.4)])
def test_delays_out_of_range_are_refused(delay: tuple[float, float]) -> None:
    with pytest.raises(ZooError, match=r"^Dialogues"):
        Dialogues(source_language="en", target_language="de", delay=delay)


def test_what_cannot_be_trained_is_refused(
    family: Family, backbone: Dialogue, tmp_path: Path
) -> None:
    objective = Dialogues(source_language="en", target_language="de")
    other = family.backbone(name="none")
    with pytest.raises(ZooError, match=f"turns with <wait>, not {type(other).__name__}"):
        objective.prepare([], other)
    with pytest.raises(ZooError, match="lacks word times or a word alignment"):
        objective.prepare([talk(tmp_path, aligned=False)], backbone)
