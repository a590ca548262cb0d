"""The thinkers of Qwen's omni models: the parts that generate text."""
