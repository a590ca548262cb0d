"""Tokens and words: vocabularies and small tokenizers."""
