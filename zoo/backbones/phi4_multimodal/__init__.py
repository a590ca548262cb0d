"""Phi-4-Multimodal behind the backbone contract."""
