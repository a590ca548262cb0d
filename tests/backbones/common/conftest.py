"""A tiny InfiniSST stands for every network that the shared parts serve."""

from tests.backbones.infinisst.conftest import make, tokenizer_folder

__all__ = ["make", "tokenizer_folder"]
