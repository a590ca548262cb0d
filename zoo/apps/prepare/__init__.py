"""From a corpus to training data: audio, word times, word alignment, filters and a card."""
