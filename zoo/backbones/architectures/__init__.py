"""Architectures that several families share: encoder-decoders, speech LLMs, dialogues."""
