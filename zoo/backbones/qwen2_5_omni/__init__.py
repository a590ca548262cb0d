"""Qwen2.5-Omni (Xu et al., 2025): its thinker as a speech translation model that transcribes first."""
