"""Qwen3-ASR behind the backbone contract."""
