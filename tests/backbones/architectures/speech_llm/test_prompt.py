from pathlib import Path

import pytest
import torch
from tokenizers.pre_tokenizers import ByteLevel
from transformers import AutoTokenizer

from zoo.backbones.architectures.speech_llm.data import collate
from zoo.backbones.architectures.speech_llm.prompt import (
    IGNORED,
    LEAN,
    TEMPLATES,
    DialoguePrompt,
    Template,
    template_named,
)
from zoo.backbones.text.tokenizer import SPECIAL_TOKENS, train_tokenizer
from zoo.backbones.text.vocabulary import containing
from zoo.base.errors import ZooError
from zoo.base.languages import language

PAD, BEGIN, END, HEADER, HEADER_END, USER, ASSISTANT, SPEECH = range(8)
# 94 printable ASCII, 94 printable Latin-1, then the rest in order; a space is the 33rd of these
SPACE = 8 + 188 + 32
NEWLINE = 8 + 188 + 10


def ids(text: str) -> list[int]:
    """Byte ids worked out by hand."""
    return [{" ": SPACE, "\n": NEWLINE}.get(letter, 8 + ord(letter) - ord("!")) for letter in text]


@pytest.fixture
def tokenizer(tokenizer_folder: Path):
    return AutoTokenizer.from_pretrained(tokenizer_folder)


def test_lean_trajectory_by_hand(tokenizer) -> None:
    prompt = DialoguePrompt(tokenizer=tokenizer, template=LEAN)
    trajectory = prompt.trajectory(
        ["", " ja so"], chunks=[2, 1], source=language("en"), target=language("de"), multiplier=2
    )
    instruction = [BEGIN, *ids("Translate the following speech from English to German."), END]
    first = [USER, *[SPEECH] * 24, END, ASSISTANT, END]
    second = [USER, *[SPEECH] * 12, END, ASSISTANT, *ids("ja so"), END]
    assert trajectory.input_ids == instruction + first + second
    unlabelled = [IGNORED] * (len(instruction) + 27) + [END] + [IGNORED] * 15
    assert trajectory.labels == [*unlabelled, *ids("ja so"), END]
    start = len(instruction) + 1
    assert trajectory.speech_positions == [
        *range(start, start + 24),
        *range(start + 28, start + 40),
    ]


def test_llama_chat_format_by_hand(tokenizer) -> None:
    prompt = DialoguePrompt(tokenizer=tokenizer, template=Template(speech="<|speech|>"))
    trajectory = prompt.trajectory(
        ["A"], chunks=[1], source=language("en"), target=language("zh"), multiplier=1
    )
    system = [BEGIN, HEADER, *ids("system"), HEADER_END, *ids("\n\n")]
    system += [*ids("Translate the following speech from English to Chinese."), END]
    user = [HEADER, *ids("user"), HEADER_END, *ids("\n\n"), *[SPEECH] * 12, END]
    assistant = [HEADER, *ids("assistant"), HEADER_END, *ids("\n\n")]
    assert trajectory.input_ids == [*system, *user, *assistant, *ids("A"), END]
    assert trajectory.labels[-2:] == [*ids("A"), END]
    assert set(trajectory.labels[:-2]) == {IGNORED}


def test_instruction_may_name_the_multiplier(tokenizer) -> None:
    template = Template(instruction="m{multiplier}", speech="<|speech|>")
    prompt = DialoguePrompt(tokenizer=tokenizer, template=template)
    assert prompt.instruction(source=language("en"), target=language("de"), multiplier=3) == ids(
        "m3"
    )


RELEASED_TOKENS = TEMPLATES["released"].special_tokens(most=2)


@pytest.fixture(scope="module")
def released_tokenizer(tmp_path_factory: pytest.TempPathFactory):
    """Bytes, and the tokens of the released dialogue for m up to 2."""
    folder = tmp_path_factory.mktemp("released")
    tokenizer = train_tokenizer(
        [], vocabulary_size=20 + 256, special_tokens=[*SPECIAL_TOKENS, *RELEASED_TOKENS]
    )
    tokenizer.backend_tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


def test_the_released_dialogue_marks_the_multiplier_with_a_token(released_tokenizer) -> None:
    assert RELEASED_TOKENS == [
        "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<latency_1>",
        "<|eot_id|>", "<latency_2>", "<sp_patch>",
    ]  # fmt: skip
    prompt = DialoguePrompt(tokenizer=released_tokenizer, template=TEMPLATES["released"])
    ids = prompt.instruction(source=language("en"), target=language("zh"), multiplier=2)
    latency = released_tokenizer.convert_tokens_to_ids("<latency_2>")
    assert ids.count(latency) == 1
    assert released_tokenizer.decode(ids).endswith(
        "Today Date: 26 Jul 2024\n\nTranslate the following speech from English to Chinese "
        "with latency "
        "<latency_2>.<|eot_id|>"
    )
    assert prompt.turn(1).count(released_tokenizer.convert_tokens_to_ids("<sp_patch>")) == 12
    with pytest.raises(ZooError, match=r"no latency token for m = 3; it has tokens for m = 1, 2\."):
        prompt.instruction(source=language("en"), target=language("zh"), multiplier=3)


def test_chatml_is_qwens_format(tokenizer) -> None:
    chatml = TEMPLATES["chatml"]
    turn = f"{chatml.user}[speech]{chatml.end_of_turn}{chatml.assistant}Ja.{chatml.end_of_turn}"
    assert chatml.filled(source="English", target="German", multiplier=1) + 2 * turn == (
        "<|im_start|>system\nTranslate the following speech from English to German.<|im_end|>\n"
        "<|im_start|>user\n[speech]<|im_end|>\n<|im_start|>assistant\nJa.<|im_end|>\n"
        "<|im_start|>user\n[speech]<|im_end|>\n<|im_start|>assistant\nJa.<|im_end|>"
    )
    with pytest.raises(
        ZooError, match=r"no single token '<\|im_end\|>'.*llama, released, offline, chatml, lean"
    ):
        DialoguePrompt(tokenizer=tokenizer, template=chatml)
    with pytest.raises(
        ZooError,
        match=r"Unknown template 'qwen'; choose one of: llama, released, offline, chatml, lean",
    ):
        template_named("qwen")


def test_tokens_that_contain_a_text(tokenizer) -> None:
    new_tokenizer = train_tokenizer(["ja (Lachen) ja (Lachen) so"] * 3, vocabulary_size=290)
    prompt = DialoguePrompt(tokenizer=new_tokenizer, template=LEAN)
    found = new_tokenizer.convert_ids_to_tokens(containing(prompt.tokenizer, ["(", "chen"]))
    assert {"(", "chen"} <= {piece[-4:].removeprefix("\u0120") for piece in found} | set(found)
    assert all("(" in piece or "chen" in piece for piece in found)
    assert containing(prompt.tokenizer, []) == []
    assert new_tokenizer.convert_tokens_to_ids("<|user|>") not in containing(
        prompt.tokenizer, ["<"]
    )
    with pytest.raises(ZooError, match=r"No token contains '\(笑声\)'"):
        containing(prompt.tokenizer, ["(", "(笑声)"])


def test_a_missing_special_token_is_named(tokenizer) -> None:
    with pytest.raises(ZooError, match="reserved_special_token_0"):
        DialoguePrompt(tokenizer=tokenizer, template=Template())


def test_collate_pads_at_the_end(tokenizer) -> None:
    prompt = DialoguePrompt(tokenizer=tokenizer, template=LEAN)
    languages = {"source": language("en"), "target": language("de"), "multiplier": 1}
    long = prompt.trajectory(["a", "b"], chunks=[1, 1], **languages)
    short = prompt.trajectory(["a"], chunks=[1], **languages)
    batch = collate([torch.ones(4), torch.ones(2)], [long, short], multiplier=1, padding=PAD)
    assert batch.audio.tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]
    assert batch.input_ids[0].tolist() == long.input_ids
    size = len(short.input_ids)
    assert batch.input_ids[1].tolist() == short.input_ids + [PAD] * (len(long.input_ids) - size)
    assert batch.labels[1, size:].unique().tolist() == [IGNORED]
    assert batch.speech_positions[1].tolist() == short.speech_positions + [-1] * 12


def test_trained_tokenizer_gives_any_text_back_with_a_space_in_front(tmp_path: Path) -> None:
    new_tokenizer = train_tokenizer(["das Haus und das Haus"] * 3, vocabulary_size=300)
    new_tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded.convert_tokens_to_ids(list(SPECIAL_TOKENS)) == list(range(8))
    text = "das Haus,  größer\n als 猫 <|eot_id|>"
    assert loaded.decode(loaded(text)["input_ids"]) == " " + text
    assert (
        loaded("Haus das")["input_ids"] == loaded("Haus")["input_ids"] + loaded("das")["input_ids"]
    )
    assert len(loaded("das Haus")["input_ids"]) < 8
    assert loaded.eos_token_id == END
    assert loaded.pad_token_id == PAD


def test_a_tokenizer_of_characters_cuts_a_text_alike_wherever_turns_do() -> None:
    text = "一个疲惫的女王,一个疲惫的国王"
    new_tokenizer = train_tokenizer([text] * 9, vocabulary_size=400, unit="char")
    ids = new_tokenizer(text)["input_ids"]
    assert len(ids) == len(text)
    assert new_tokenizer(text[:5])["input_ids"] + new_tokenizer(text[5:])["input_ids"] == ids
    unseen = "猫 ß\n" + text
    assert new_tokenizer.decode(new_tokenizer(unseen)["input_ids"]) == unseen
