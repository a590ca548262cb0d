"""Tiny random recognisers in folders, as Transformers writes them."""

from pathlib import Path

import pytest
import torch
from transformers import (
    PreTrainedModel,
    SeamlessM4TFeatureExtractor,
    SequenceFeatureExtractor,
    Wav2Vec2BertForCTC,
    Wav2Vec2FeatureExtractor,
    Wav2Vec2ForCTC,
)

from tests.fixtures import tiny_checkpoints
from zoo.backbones.ctc.spelling import character_tokenizer


def ctc_folder(folder: Path, *, group_norm: bool = False) -> Path:
    """A wav2vec 2.0 for CTC, 20 ms frames; with ``group_norm``, padding must not be encoded."""
    return _write_recogniser(
        folder,
        Wav2Vec2ForCTC,
        Wav2Vec2FeatureExtractor(return_attention_mask=not group_norm),
        conv_dim=[8, 8],
        conv_kernel=[40, 8],
        conv_stride=[40, 8],
        feat_extract_norm="group" if group_norm else "layer",
        num_conv_pos_embeddings=4,
        num_conv_pos_embedding_groups=2,
    )


def _write_recogniser(
    folder: Path,
    network: type[PreTrainedModel],
    extractor: SequenceFeatureExtractor,
    **shape: object,
) -> Path:
    """A folder with random weights of a class for CTC, its letters and its feature extractor."""
    tokenizer = character_tokenizer("abcdefg")
    config = network.config_class(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=1.0,
        **shape,
    )
    torch.manual_seed(0)
    network(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    extractor.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CTC model that masks padding."""
    return ctc_folder(tmp_path_factory.mktemp("masked"))


@pytest.fixture(scope="session")
def unmasked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CTC model that does not, as wav2vec2-base."""
    return ctc_folder(tmp_path_factory.mktemp("unmasked"), group_norm=True)


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Wav2Vec2-BERT for CTC, whose input is filterbanks."""
    return _write_recogniser(
        tmp_path_factory.mktemp("bert"), Wav2Vec2BertForCTC, SeamlessM4TFeatureExtractor()
    )


@pytest.fixture(scope="session")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Whisper of several languages."""
    folder = tmp_path_factory.mktemp("whisper")
    tiny_checkpoints.KINDS["whisper"](folder)
    return folder
