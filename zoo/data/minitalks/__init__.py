"""The built-in corpus: an aligned grammar, its speech and its talks."""
