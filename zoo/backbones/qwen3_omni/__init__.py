"""The thinker of Qwen3-Omni behind the backbone contract."""
