"""A cache of the Hugging Face hub with tiny random models under the ids that the pages name.

With ``HF_HUB_CACHE`` set to it and ``HF_HUB_OFFLINE=1``, commands run as the pages give them. Large
models are in bfloat16 and sharded, as published.
"""

import hashlib
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import (
    BertConfig,
    BertModel,
    BertTokenizerFast,
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Qwen3ForCausalLM,
    Wav2Vec2Config,
    Wav2Vec2FeatureExtractor,
    Wav2Vec2ForCTC,
)

from tests.fixtures import hibiki_layout, tiny_checkpoints
from tests.fixtures.tiny_models import CAUSAL, ENCODER, TEXTS
from zoo.backbones.cascade.prompt import Template
from zoo.backbones.ctc.spelling import character_tokenizer
from zoo.backbones.text.tokenizer import SPECIAL_TOKENS, train_tokenizer

Make = Callable[[Path], None]
RESERVED = [f"<|reserved_special_token_{number}|>" for number in range(16)]  # of Llama 3
LLAMA_CHAT = (
    "{% for message in messages %}<|start_header_id|>{{ message.role }}<|end_header_id|>\n\n"
    "{{ message.content }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
LLM_LAYERS = 15  # InfiniSST's baselines align by layer 14
SEVERAL = 4  # shards of a large model


def llama(folder: Path, *, seed: int = 0) -> None:
    """A Llama 3 with the special tokens of its dialogues."""
    _text_llm(folder, [*SPECIAL_TOKENS, *RESERVED], seed, chat=LLAMA_CHAT)


def gemma3(folder: Path, *, seed: int = 0) -> None:
    """A Gemma 3 with a vision encoder, as published."""
    special = ["<bos>", "<start_of_turn>", "<end_of_turn>"]
    tokenizer = train_tokenizer(
        TEXTS, vocabulary_size=320, special_tokens=[*SPECIAL_TOKENS, *special]
    )
    tokenizer.save_pretrained(folder)
    torch.manual_seed(seed)
    kinds = ["sliding_attention", "full_attention"] * CAUSAL["num_hidden_layers"]
    text = {
        **CAUSAL,
        "head_dim": 8,
        "tie_word_embeddings": True,
        "vocab_size": len(tokenizer),
        "sliding_window": 16,
        "layer_types": kinds[: CAUSAL["num_hidden_layers"]],
    }
    vision = {
        "hidden_size": 8,
        "intermediate_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "image_size": 28,
        "patch_size": 14,
    }
    config = Gemma3Config(text_config=text, vision_config=vision)
    Gemma3ForConditionalGeneration(config).save_pretrained(folder)


def qwen3(folder: Path, *, seed: int = 0) -> None:
    """A Qwen3 with the special tokens of its chat format."""
    special = ["<|im_start|>", "<|im_end|>"]
    _text_llm(folder, [*SPECIAL_TOKENS, *special], seed, network=Qwen3ForCausalLM)


def phi4_mini(folder: Path, *, seed: int = 0) -> None:
    """A text LLM with the special tokens of Phi-4-mini."""
    _text_llm(folder, [*SPECIAL_TOKENS, *Template().tokens], seed)


def wav2vec2(folder: Path, *, seed: int = 0, letters: str = "abcdefghijklmnopqrstuvwxyz'") -> None:
    """A wav2vec 2.0 large for CTC of English letters, of the shape of ``ENCODER``."""
    tokenizer = character_tokenizer(letters)
    channels = json.loads(ENCODER["conv_channels"])
    torch.manual_seed(seed)
    network = Wav2Vec2ForCTC(
        Wav2Vec2Config(
            conv_dim=channels,
            conv_bias=True,
            feat_extract_norm="layer",
            do_stable_layer_norm=True,
            hidden_size=ENCODER["hidden"],
            num_hidden_layers=ENCODER["layers"],
            num_attention_heads=ENCODER["heads"],
            intermediate_size=ENCODER["ff"],
            num_conv_pos_embeddings=4,
            num_conv_pos_embedding_groups=2,
            vocab_size=len(tokenizer),
            pad_token_id=tokenizer.pad_token_id,
            initializer_range=0.5,
        )
    )
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    Wav2Vec2FeatureExtractor(return_attention_mask=True).save_pretrained(folder)


def labse(folder: Path, *, seed: int = 0) -> None:
    """A BERT whose hidden states align words."""
    folder.mkdir(parents=True)
    letters = sorted({letter for text in TEXTS for letter in text.lower() if letter.strip()})
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{x}" for x in letters)]
    (folder / "vocab.txt").write_text("\n".join(pieces), encoding="utf-8")
    BertTokenizerFast(vocab_file=str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(pieces),
        hidden_size=16,
        num_hidden_layers=12,
        num_attention_heads=2,
        intermediate_size=24,
        initializer_range=0.5,
    )
    BertModel(config).save_pretrained(folder)


# Deep enough for the layers that conf/ names for the published models.
_phi4 = partial(tiny_checkpoints.phi4_multimodal, depth=17)
_seamless = partial(tiny_checkpoints.seamless_m4t_speech, unit_layers=tiny_checkpoints.DEPTH)
MODELS: dict[str, Make] = {
    # With these seeds, most unit sequences end before their limit.
    "facebook/hf-seamless-m4t-medium": partial(_seamless, seed=31),
    "facebook/hf-seamless-m4t-large": partial(_seamless, seed=29),
    "facebook/seamless-m4t-v2-large": tiny_checkpoints.seamless_m4t_v2,
    "facebook/s2t-small-mustc-en-de-st": tiny_checkpoints.speech_to_text,
    "facebook/wav2vec2-base-960h": wav2vec2,
    "facebook/wav2vec2-large-960h-lv60-self": partial(wav2vec2, seed=1),
    "openai/whisper-large-v3": tiny_checkpoints.whisper,
    "openai/whisper-small": partial(tiny_checkpoints.whisper, seed=1),
    "nvidia/canary-1b-v2": tiny_checkpoints.canary,
    "kyutai/hibiki-zero-3b-pytorch-bf16": hibiki_layout.hibiki,
    "kyutai/hibiki-2b-pytorch-bf16": partial(
        hibiki_layout.hibiki, joined=True, **hibiki_layout.FIRST
    ),
    "kyutai/mimi": hibiki_layout.mimi,
    "sentence-transformers/LaBSE": labse,
}
LARGE: dict[str, Make] = {  # bfloat16 and sharded
    "ICTNLP/StreamUni-Phi4": partial(_phi4, seed=1),
    "microsoft/Phi-4-multimodal-instruct": _phi4,
    "microsoft/Phi-4-mini-instruct": phi4_mini,
    "google/gemma-3-4b-it": gemma3,
    "Qwen/Qwen3-ASR-1.7B-hf": tiny_checkpoints.qwen3_asr,
    "Qwen/Qwen3-4B-Instruct-2507": qwen3,
    "mistralai/Voxtral-Mini-4B-Realtime-2602": tiny_checkpoints.voxtral_realtime,
    "meta-llama/Llama-3.1-8B-Instruct": llama,
    "meta-llama/Meta-Llama-3-8B-Instruct": partial(llama, seed=1),
    "Unbabel/TowerInstruct-7B-v0.2": partial(llama, seed=2),
    "Qwen/Qwen2.5-Omni-7B": partial(tiny_checkpoints.qwen2_5_omni, depth=15),
    # With this seed, a text is written.
    "Qwen/Qwen3-Omni-30B-A3B-Instruct": partial(tiny_checkpoints.qwen3_omni, seed=5),
}


def write_hub(cache: Path) -> None:
    """Write all models in the layout of the hub's cache.

    Args:
        cache: folder that ``HF_HUB_CACHE`` will name.
    """
    for name, make in (MODELS | LARGE).items():
        revision = hashlib.sha1(name.encode()).hexdigest()
        model = cache / f"models--{name.replace('/', '--')}"
        folder = model / "snapshots" / revision
        make(folder)
        if name in LARGE:
            shard(folder)
        (model / "refs").mkdir()
        (model / "refs" / "main").write_text(revision)


def shard(folder: Path) -> None:
    """Divide the weights of a model into files of bfloat16 tensors, as large models have them."""
    whole = folder / "model.safetensors"
    tensors = {name: tensor.bfloat16() for name, tensor in load_file(whole).items()}
    whole.unlink()
    files: dict[str, str] = {}
    for index in range(SEVERAL):
        file = f"model-{index + 1:05d}-of-{SEVERAL:05d}.safetensors"
        own = {name: tensors[name] for name in sorted(tensors)[index::SEVERAL]}
        save_file(own, folder / file, metadata={"format": "pt"})
        files |= dict.fromkeys(own, file)
    size = sum(tensor.nbytes for tensor in tensors.values())
    description = {"metadata": {"total_size": size}, "weight_map": dict(sorted(files.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(description, indent=2))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"dtype": "bfloat16"}, indent=2))


def _text_llm(
    folder: Path,
    special: list[str],
    seed: int,
    *,
    chat: str | None = None,
    network: type[LlamaForCausalLM | Qwen3ForCausalLM] = LlamaForCausalLM,
) -> None:
    """Write a tiny text LLM whose tokenizer has some special tokens and a template of dialogues."""
    # The opening bracket is a token, as in published tokenizers, so that it can be suppressed.
    tokenizer = train_tokenizer(
        [*TEXTS, "（笑" * 50], vocabulary_size=320, special_tokens=list(dict.fromkeys(special))
    )
    tokenizer.chat_template = chat
    tokenizer.save_pretrained(folder)
    torch.manual_seed(seed)
    shape = {**CAUSAL, "tie_word_embeddings": False, "vocab_size": len(tokenizer)}
    shape["num_hidden_layers"] = LLM_LAYERS
    config = network.config_class(**shape, bos_token_id=tokenizer.bos_token_id, pad_token_id=None)
    model = network(config)
    if chat is not None:
        _teach_to_end(model, tokenizer)
    model.save_pretrained(folder)


def _teach_to_end(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Train a network for a moment to answer with a few words and the end of the turn.

    A random network never ends its answers, and all work on them fails.
    """
    answer = tokenizer(f"{TEXTS[0][:12]}{tokenizer.eos_token}", add_special_tokens=False).input_ids
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for step in range(60):
        message = {"role": "user", "content": TEXTS[0][step % 20 : 40 + step % 7]}
        prompt = tokenizer.apply_chat_template([message], add_generation_prompt=True)
        prompt = prompt if isinstance(prompt, list) else prompt["input_ids"]
        ids = torch.tensor([[*prompt, *answer]])
        labels = ids.clone()
        labels[:, : len(prompt)] = -100
        optimizer.zero_grad()
        network(ids, labels=labels).loss.backward()
        optimizer.step()
