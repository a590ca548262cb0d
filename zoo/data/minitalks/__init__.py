"""minitalks, the built-in corpus: an aligned grammar, its synthetic speech and its talks."""
