"""Wav2Text, a small offline encoder-decoder from waveform to translated text."""
