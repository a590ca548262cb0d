"""Speech of espeak-ng with the times of words and phonemes."""
