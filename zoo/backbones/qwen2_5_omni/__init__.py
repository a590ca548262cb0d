"""The thinker of Qwen2.5-Omni behind the backbone contract."""
