"""How good and how late the words are. Reads instances, never a model."""
