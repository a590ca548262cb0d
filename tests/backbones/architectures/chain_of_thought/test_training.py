"""Training of chains of thought: labels on the response only, trained parts, saved weights."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from lightning.fabric.utilities import move_data_to_device
from torch import Tensor
from transformers import AutoTokenizer

from zoo.backbones.architectures.chain_of_thought.chain_of_thought import ChainOfThought
from zoo.backbones.architectures.chain_of_thought.data import ThoughtBatch
from zoo.backbones.architectures.chain_of_thought.prompt import Template, ThoughtPrompt
from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.decoding.search import SearchConfig
from zoo.backbones.decoding.teacher_forcing import IGNORED, enable_checkpointing
from zoo.base.errors import ZooError
from zoo.base.languages import Language, language
from zoo.base.types import NO_CONTEXT, Context, Term

Make = Callable[..., ChainOfThought]
GERMAN = language("de")


@dataclass(frozen=True)
class Piece:
    """Two words of noise."""

    transcript: str
    translation: str
    seed: int = 0
    seconds: float = 0.8
    language: Language = GERMAN
    context: Context = NO_CONTEXT

    def samples(self) -> Tensor:
        return torch.randn(
            round(self.seconds * 16_000), generator=torch.Generator().manual_seed(self.seed)
        )


PIECES = [Piece("Ab c.", "Xy."), Piece("", "", 1), Piece("d", "Zz zz zz.", 2)]


def decoded(backbone: ChainOfThought, ids: Tensor) -> str:
    return str(backbone.tokenizer.decode(ids, skip_special_tokens=False))


def test_a_direct_answer_is_the_translation_alone(make: Make) -> None:
    backbone = make(direct=True)
    batch = backbone.collator()(PIECES)
    answers = [decoded(backbone, row[row != -100]) for row in batch.labels]
    assert [answer.strip() for answer in answers] == ["Xy.<|end|>", "<|end|>", "Zz zz zz.<|end|>"]
    assert not batch.transcript.any()
    losses = backbone(batch)
    torch.testing.assert_close(losses["loss"], losses["translation"])
    assert "transcript" not in losses


@pytest.mark.parametrize("separated", [True, False])
def test_the_loss_is_on_the_answer(make: Make, separated: bool) -> None:
    backbone = make(separated=separated)
    batch = backbone.collator()(PIECES)
    assert [frames.shape for frames in batch.features] == [(78, 8)] * 3
    assert (batch.input_ids == backbone.prompt.audio).sum(dim=1).tolist() == [10, 10, 10]
    sep = "<sep>" if separated else " <sep>"
    for row, piece in enumerate(PIECES):
        labels, transcript = batch.labels[row], batch.transcript[row]
        labelled = labels != -100
        assert labels[labelled].tolist() == batch.input_ids[row, labelled].tolist()
        first = int(labelled.nonzero()[0])
        prompt = decoded(backbone, batch.input_ids[row, :first]).replace("<|audio|>", "")
        assert prompt == "<|user|> To German.<|end|><|assistant|>"
        source = f" {piece.transcript}" if piece.transcript else ""
        target = f" {piece.translation}" if piece.translation else ""
        assert decoded(backbone, labels[transcript]) == source + sep
        assert decoded(backbone, labels[labelled & ~transcript]) == target + "<|end|>"
        assert not (transcript & ~labelled).any()


def test_teacher_forcing_is_transformers_on_each_piece(make: Make) -> None:
    """The pieces have two durations."""
    backbone = make()
    pieces = [PIECES[0], Piece("a", "b z", 3, seconds=1.2), *PIECES[1:]]
    losses = backbone(backbone.collator()(pieces))
    parts: dict[bool, list[Tensor]] = {True: [], False: []}
    right = []
    for piece in pieces:
        prompt = backbone.prompt
        source, target = prompt.transcript(piece.transcript), prompt.translation(piece.translation)
        frames = backbone.spectrogram.compute(backbone.spectrogram.open(), piece.samples(), 0)
        speech = backbone.project(backbone.encode([backbone.prepared(frames).double()])[0][0])
        ids = prompt.opening(len(speech), language("de"))
        embeddings = backbone.model.get_input_embeddings()(torch.tensor(ids + source + target))
        embeddings = torch.cat([embeddings[:1], speech, embeddings[1 + len(speech) :]])
        logits = backbone.model(inputs_embeds=embeddings[None]).logits[0, len(ids) - 1 : -1]
        each = F.cross_entropy(logits, torch.tensor(source + target), reduction="none")
        parts[True].append(each[: len(source)])
        parts[False].append(each[len(source) :])
        right.append(logits.argmax(-1) == torch.tensor(source + target))
    everything = torch.cat(parts[True] + parts[False])
    close = {"rtol": 0, "atol": 1e-5}
    torch.testing.assert_close(losses["loss"].double(), everything.mean(), **close)
    torch.testing.assert_close(
        losses["transcript"].double(), torch.cat(parts[True]).mean(), **close
    )
    torch.testing.assert_close(
        losses["translation"].double(), torch.cat(parts[False]).mean(), **close
    )
    torch.testing.assert_close(losses["token_accuracy"], torch.cat(right).float().mean(), **close)


def test_only_named_parts_are_trained(make: Make) -> None:
    backbone = make()
    backbone.trainable(["projector"])
    losses = backbone(backbone.collator()(PIECES))
    losses["loss"].backward()
    trainable_names = {
        name for name, parameter in backbone.named_parameters() if parameter.grad is not None
    }
    assert trainable_names == {"model.projection.weight", "model.projection.bias"}
    backbone.trainable(["encoder"])
    hidden, middle = backbone.encode_training(torch.stack([piece.samples() for piece in PIECES]), 1)
    assert hidden.requires_grad
    assert (hidden.shape, middle.shape) == ((3, 10, 12), (3, 10, 12))
    expected, _ = backbone.encode(
        [batch.double() for batch in backbone.collator()(PIECES).features]
    )
    torch.testing.assert_close(hidden, torch.stack(expected))
    backbone.trainable(["decoder"])
    assert not backbone.encode_training(torch.zeros(1, 1600), 1)[0].requires_grad
    with pytest.raises(ZooError, match="adapter"):
        backbone.trainable(["adapter"])


def test_saved_folders_load_in_transformers(make: Make, tmp_path: Path) -> None:
    backbone = make()
    backbone.save(tmp_path, torch.bfloat16)
    again = type(backbone.model).from_pretrained(tmp_path, dtype=torch.float64)
    for name, weight in backbone.model.state_dict().items():
        assert torch.equal(again.state_dict()[name], weight.to(torch.bfloat16).double()), name
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    prompt = ThoughtPrompt(tokenizer=tokenizer, template=backbone.template)
    assert prompt.transcript("Ab.") == backbone.prompt.transcript("Ab.")


@pytest.mark.parametrize(
    "name", ["gradient_checkpointing_enable", "activation_checkpointing_enable"]
)
def test_checkpointing_by_either_name(name: str) -> None:
    """Transformers 5.17 has the first, 5.23 both, of which it warns of the first."""
    calls: list[object] = []
    network = {name: calls.append, "disable_input_require_grads": lambda: calls.append("inputs")}
    enable_checkpointing(
        type("Network", (), {key: staticmethod(call) for key, call in network.items()})()
    )
    assert calls == [{"use_reentrant": False}, "inputs"]


def test_a_batch_moves(make: Make) -> None:
    batch = make().collator()(PIECES)
    moved = move_data_to_device(batch, "meta")
    assert isinstance(moved, ThoughtBatch)
    tensors = [*moved.features, moved.labels, moved.transcript]
    assert {tensor.device.type for tensor in tensors} == {"meta"}


def test_incompatible_options_are_an_error(make: Make) -> None:
    with pytest.raises(ZooError, match="no other braces"):
        Template(instruction="{source}")
    with pytest.raises(ZooError, match="no single token"):
        ThoughtPrompt(tokenizer=make().tokenizer, template=Template(user="", audio="<|none|>"))
    with pytest.raises(ZooError, match="max_tokens"):
        make(max_tokens=0)
    with pytest.raises(ZooError, match="characters"):
        make(words="spaces")
    with pytest.raises(ZooError, match="suppresses tokens of the separator '<sep>'"):
        make(separated=False, search=SearchConfig(suppress=["<"]))
    make(search=SearchConfig(suppress=["<"]))
    with pytest.raises(ZooError, match="layers are 0 to 2"):
        make(alignment=AlignmentConfig(layer=7))


def test_the_context_of_an_example_is_in_its_prompt(make: Make) -> None:
    backbone = make()
    context = Context(terms=(Term("a", "b"),))
    plain, known = (
        backbone.collator()([Piece("so", "ja", context=one)]) for one in (NO_CONTEXT, context)
    )
    added = known.input_ids.shape[1] - plain.input_ids.shape[1]
    assert added == len(backbone.prompt.opening(1, GERMAN, context)) - len(
        backbone.prompt.opening(1, GERMAN)
    )
    labelled = [batch.labels[batch.labels != IGNORED].tolist() for batch in (plain, known)]
    assert labelled[0] == labelled[1]
