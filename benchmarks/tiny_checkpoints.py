"""Tiny speech translation models with random weights, saved as Transformers saves those of the hub.

    python benchmarks/tiny_checkpoints.py FOLDER    writes one of each kind to FOLDER/KIND

What they say is nonsense, but configuration, weights, tokenizer and feature extractor are real ones: good for tests and
for trying a command line without a download.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    GenerationConfig,
    Phi4MultimodalConfig,
    Phi4MultimodalForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2_5OmniConfig,
    Qwen2_5OmniForConditionalGeneration,
    SeamlessM4TConfig,
    SeamlessM4TFeatureExtractor,
    SeamlessM4TForSpeechToText,
    SeamlessM4TModel,
    SeamlessM4TProcessor,
    SeamlessM4TTokenizer,
    SeamlessM4Tv2Config,
    SeamlessM4Tv2ForSpeechToText,
    Speech2TextConfig,
    Speech2TextFeatureExtractor,
    Speech2TextForConditionalGeneration,
    Speech2TextProcessor,
    Speech2TextTokenizer,
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
    WhisperProcessor,
    WhisperTokenizer,
)

from zoo.backbones.phi4_multimodal.network import UNSEEN

TEXT = (
    "Good morning. We talk about the weather, and the weather is good!",
    "Is it a long way to the sea? The sea is far away; we go there by train.",
    "Guten Morgen. Wir reden heute über das Wetter, und das Wetter ist schön!",
    "Buenos días. Hoy hablamos del tiempo: hace buen tiempo.",
    "早上好。我们今天谈谈天气，天气很好！大海很远，我们坐火车去。",
)
SEAMLESS_LANGUAGES = ("eng", "deu", "spa", "cmn", "fra", "ita", "nld", "por", "ron", "rus", "jpn")
WHISPER_LANGUAGES = ("en", "zh", "de", "es", "ja")
DEPTH = 4  # decoder layers: the backbones' YAML names the fourth for alignments
SPREAD = 0.35  # of random weights: large enough that audio changes what is said
CLOSING = (
    2.0  # how much larger the weights of the closing token are, so that texts end now and then
)

UNITS = 12
SPEAKING: dict[str, Any] = {  # fields of a SeamlessM4TConfig
    "t2u_vocab_size": 4 + UNITS + 9,
    "t2u_encoder_layers": 1,
    "t2u_encoder_ffn_dim": 24,
    "t2u_encoder_attention_heads": 2,
    "t2u_decoder_layers": 2,
    "t2u_decoder_ffn_dim": 24,
    "t2u_decoder_attention_heads": 2,
    "unit_hifi_gan_vocab_size": UNITS,
    "unit_embed_dim": 8,
    "lang_embed_dim": 4,
    "spkr_embed_dim": 4,
    "vocoder_num_langs": 9,
    "vocoder_num_spkrs": 2,
    "upsample_initial_channel": 16,
    "upsample_rates": [10, 8, 4],
    "upsample_kernel_sizes": [20, 16, 8],
    "resblock_kernel_sizes": [3, 5],
    "resblock_dilation_sizes": [[1, 3], [1, 3]],
}

OMNI_TOKENS = {
    "audio_start_token_id": "<|audio_bos|>",
    "audio_end_token_id": "<|audio_eos|>",
    "audio_token_index": "<|AUDIO|>",
    "vision_start_token_id": "<|vision_bos|>",
    "vision_end_token_id": "<|vision_eos|>",
    "image_token_index": "<|IMAGE|>",
    "video_token_index": "<|VIDEO|>",
}
WIDTHS = {"hidden_size": 16, "intermediate_size": 24}
OMNI_EYES = {
    **WIDTHS,
    "depth": 2,
    "num_heads": 2,
    "out_hidden_size": 16,
    "fullatt_block_indexes": [1],
}
OMNI_EARS = {
    "d_model": 16,
    "encoder_layers": 2,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "n_window": 50,
    "output_dim": 16,
    "initializer_range": SPREAD,
}


def speech_to_text(folder: Path, *, seed: int = 0, languages: bool = False) -> None:
    """A Speech2Text. languages: a multilingual one, that is told the target language by a token."""
    folder.mkdir(parents=True, exist_ok=True)
    symbols = (
        [f"<lang:{code}>" for code in ("pt", "fr", "ru", "nl", "ro", "it", "es", "de")]
        if languages
        else []
    )
    pieces = _sentencepiece(folder / "pieces", symbols)
    (folder / "vocab.json").write_text(json.dumps(pieces))
    tokenizer = Speech2TextTokenizer(
        vocab_file=str(folder / "vocab.json"),
        spm_file=str(folder / "pieces.model"),
        **({"lang_codes": "mustc", "tgt_lang": "de"} if languages else {}),
    )
    config = Speech2TextConfig(
        vocab_size=len(pieces),
        d_model=16,
        encoder_layers=2,
        decoder_layers=DEPTH,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=24,
        decoder_ffn_dim=24,
        conv_channels=16,
        max_target_positions=256,
        tie_word_embeddings=False,
        init_std=SPREAD,
    )
    model = _random(Speech2TextForConditionalGeneration, config, seed)
    _save(folder, model, Speech2TextProcessor(Speech2TextFeatureExtractor(), tokenizer))
    for leftover in folder.glob("pieces.*"):
        leftover.unlink()


def whisper(folder: Path, *, seed: int = 0, multilingual: bool = True) -> None:
    """A Whisper. multilingual: else one that knows English only, and no task."""
    vocabulary, merges = _byte_pairs(pre_tokenizers.ByteLevel(add_prefix_space=False))
    languages = [f"<|{code}|>" for code in WHISPER_LANGUAGES]
    tasks = [
        "<|translate|>",
        "<|transcribe|>",
        "<|startoflm|>",
        "<|startofprev|>",
        "<|nospeech|>",
        "<|notimestamps|>",
    ]
    special = ["<|endoftext|>", "<|startoftranscript|>", *languages, *tasks]
    ids = {token: len(vocabulary) + place for place, token in enumerate(special)}
    tokenizer = WhisperTokenizer(
        vocab=vocabulary | {"<|endoftext|>": ids["<|endoftext|>"]},
        merges=merges,
        extra_special_tokens=special[1:],
    )
    end, start, space = ids["<|endoftext|>"], ids["<|startoftranscript|>"], vocabulary["Ġ"]
    config = WhisperConfig(
        vocab_size=len(vocabulary) + len(special),
        d_model=16,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=24,
        decoder_ffn_dim=24,
        decoder_start_token_id=start,
        pad_token_id=end,
        bos_token_id=end,
        eos_token_id=end,
        tie_word_embeddings=False,
        init_std=SPREAD,
    )
    tells: dict[str, Any] = {"is_multilingual": False}
    if multilingual:
        tells = {
            "is_multilingual": True,
            "lang_to_id": {language: ids[language] for language in languages},
            "task_to_id": {"transcribe": ids["<|transcribe|>"], "translate": ids["<|translate|>"]},
        }
    model = _random(WhisperForConditionalGeneration, config, seed)
    model.generation_config = GenerationConfig(
        decoder_start_token_id=start,
        eos_token_id=end,
        pad_token_id=end,
        bos_token_id=end,
        max_length=448,
        no_timestamps_token_id=ids["<|notimestamps|>"],
        return_timestamps=False,
        alignment_heads=[[0, 1], [1, 0], [1, 1]],
        begin_suppress_tokens=[space, end],
        suppress_tokens=[vocabulary["!"], *(ids[token] for token in special[1:])],
        **tells,
    )
    _save(folder, model, WhisperProcessor(WhisperFeatureExtractor(), tokenizer))


def seamless_m4t(folder: Path, *, seed: int = 0) -> None:
    """A SeamlessM4T of the first version, speech to text."""
    _seamless(folder, SeamlessM4TConfig, SeamlessM4TForSpeechToText, seed)


def seamless_m4t_v2(folder: Path, *, seed: int = 0) -> None:
    """A SeamlessM4T of the second version, speech to text."""
    _seamless(folder, SeamlessM4Tv2Config, SeamlessM4Tv2ForSpeechToText, seed)


def seamless_m4t_speech(folder: Path, *, seed: int = 24) -> None:
    """A whole SeamlessM4T of the first version: it writes and speaks, but not every language that it writes.

    With this seed texts and speech end by themselves, after different units for different texts.
    """
    _seamless(folder, SeamlessM4TConfig, SeamlessM4TModel, seed)


def phi4_multimodal(folder: Path, *, seed: int = 0) -> None:
    """A Phi-4-Multimodal as Transformers saves it; ``<sep>`` is plain text to its tokenizer."""
    audio, end, pad = "<|endoftext11|>", "<|end|>", "<|endoftext|>"
    tokenizer = _byte_level(
        [pad, audio, end, "<|user|>", "<|assistant|>"], bos_token=pad, eos_token=pad, pad_token=pad
    )
    ids = {token: tokenizer.convert_tokens_to_ids(token) for token in (audio, end, pad)}
    config = Phi4MultimodalConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=DEPTH,
        num_attention_heads=2,
        num_key_value_heads=1,
        bos_token_id=ids[pad],
        eos_token_id=[ids[pad], ids[end]],
        pad_token_id=ids[pad],
        tie_word_embeddings=True,
        initializer_range=SPREAD,
        audio_config={
            "hidden_size": 16,
            "intermediate_size": 24,
            "num_blocks": 2,
            "num_attention_heads": 2,
            "ext_pw_out_channel": 16,
            "depthwise_separable_out_channel": 16,
            "nemo_conv_channels": 4,
            "bias_max_distance": 20,
            "initializer_range": SPREAD,
            "audio_token_id": ids[audio],
        },
        vision_config=dict(UNSEEN),
    )
    _save(folder, _random(Phi4MultimodalForCausalLM, config, seed), tokenizer)


def qwen2_5_omni(folder: Path, *, seed: int = 0) -> None:
    """A Qwen2.5-Omni as Transformers saves it, mute; ``<sep>`` is plain text to its tokenizer."""
    pad, start, end = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
    tokenizer = _byte_level([pad, start, end, *OMNI_TOKENS.values()], eos_token=end, pad_token=pad)
    ids = {name: tokenizer.convert_tokens_to_ids(token) for name, token in OMNI_TOKENS.items()}
    text = {
        **WIDTHS,
        "vocab_size": len(tokenizer),
        "num_hidden_layers": DEPTH,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "tie_word_embeddings": False,
        "initializer_range": SPREAD,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]},
    }
    thinker = {**ids, "text_config": text, "audio_config": OMNI_EARS, "vision_config": OMNI_EYES}
    torch.manual_seed(seed)
    config = Qwen2_5OmniConfig(thinker_config=thinker, enable_audio_output=False)
    model = Qwen2_5OmniForConditionalGeneration(config).eval()
    with torch.no_grad():
        model.thinker.lm_head.weight[tokenizer.eos_token_id] *= CLOSING
    _save(folder, model, tokenizer)


KINDS: dict[str, Callable[..., None]] = {
    maker.__name__: maker
    for maker in (
        speech_to_text,
        whisper,
        seamless_m4t,
        seamless_m4t_v2,
        seamless_m4t_speech,
        phi4_multimodal,
        qwen2_5_omni,
    )
}


def _seamless(folder: Path, kind: type, network: type[PreTrainedModel], seed: int) -> None:
    vocabulary, merges = _byte_pairs(
        pre_tokenizers.Metaspace(prepend_scheme="first"), above=("<pad>", "<unk>", "<s>", "</s>")
    )
    languages = [f"__{code}__" for code in SEAMLESS_LANGUAGES]
    tokenizer = SeamlessM4TTokenizer(
        vocab=vocabulary, merges=merges, extra_special_tokens=languages
    )
    config = kind(
        vocab_size=len(vocabulary) + len(languages),
        hidden_size=16,
        encoder_layers=1,
        encoder_ffn_dim=24,
        encoder_attention_heads=2,
        decoder_layers=DEPTH,
        decoder_ffn_dim=24,
        decoder_attention_heads=2,
        speech_encoder_layers=2,
        speech_encoder_attention_heads=2,
        speech_encoder_intermediate_size=24,
        max_position_embeddings=256,
        **(
            SPEAKING
            if network is SeamlessM4TModel
            else {"t2u_encoder_layers": 1, "t2u_decoder_layers": 1}
        ),
        tie_word_embeddings=False,
        initializer_range=SPREAD,
    )
    model = _random(network, config, seed)
    maps: dict[str, dict[str, int]] = {"text_decoder_lang_to_code_id": _language_ids(tokenizer)}
    if network is SeamlessM4TModel:
        spoken = SEAMLESS_LANGUAGES[: SPEAKING["vocoder_num_langs"]]
        maps["t2u_lang_code_to_id"] = {code: 4 + UNITS + place for place, code in enumerate(spoken)}
        maps["vocoder_lang_code_to_id"] = {code: place for place, code in enumerate(spoken)}
        with torch.no_grad():
            scores = model.t2u_model.lm_head.weight
            scores[[0, 1, 3, *maps["t2u_lang_code_to_id"].values()]] = (
                0  # Transformers would say them and break
            )
            scores[config.t2u_eos_token_id] *= CLOSING
            model.lm_head.weight[
                config.eos_token_id
            ] *= -0.7  # the other way: with this seed some texts end
    model.generation_config = GenerationConfig(
        decoder_start_token_id=3, bos_token_id=2, eos_token_id=3, pad_token_id=0, **maps
    )
    _save(folder, model, SeamlessM4TProcessor(SeamlessM4TFeatureExtractor(), tokenizer))


def _language_ids(tokenizer: SeamlessM4TTokenizer) -> dict[str, int]:
    return {code: tokenizer.convert_tokens_to_ids(f"__{code}__") for code in SEAMLESS_LANGUAGES}


def _random(network: type[PreTrainedModel], config: Any, seed: int) -> PreTrainedModel:
    torch.manual_seed(seed)
    model = network(config).eval()
    with torch.no_grad():
        model.get_output_embeddings().weight[config.eos_token_id] *= CLOSING
    return model


def _save(folder: Path, model: PreTrainedModel, processor: Any) -> None:
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


def _sentencepiece(prefix: Path, symbols: Sequence[str]) -> dict[str, int]:
    """Train pieces on ``TEXT`` in fairseq's order of special ones; ids by piece."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT),
        model_prefix=str(prefix),
        vocab_size=140 + len(symbols),
        character_coverage=1.0,
        hard_vocab_limit=False,
        user_defined_symbols=list(symbols),
        bos_id=0,
        pad_id=1,
        eos_id=2,
        unk_id=3,
        minloglevel=2,
    )
    model = sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")
    return {model.id_to_piece(token): token for token in range(model.vocab_size())}


def _byte_level(special: Sequence[str], **named: str) -> PreTrainedTokenizerFast:
    """Byte pairs trained on ``TEXT``, special tokens first. named: which of these are ``bos_token`` and so on."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=360, special_tokens=list(special), initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    others = [token for token in special if token not in named.values()]
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, additional_special_tokens=others, **named
    )


def _byte_pairs(
    splitting: pre_tokenizers.PreTokenizer, above: Sequence[str] = ()
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Train byte pairs on ``TEXT``: ids by piece, the ones in ``above`` first, and merges."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = splitting
    alphabet = pre_tokenizers.ByteLevel.alphabet() if not above else ["▁"]
    trainer = trainers.BpeTrainer(
        vocab_size=360, special_tokens=list(above), initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    learned = json.loads(tokenizer.to_str())["model"]
    return learned["vocab"], [tuple(merge) for merge in learned["merges"]]


def main(arguments: Sequence[str]) -> None:
    """Write one model of each kind."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args(arguments).folder
    for kind, make in KINDS.items():
        make(folder / kind)
        print(folder / kind)


if __name__ == "__main__":
    main(sys.argv[1:])
