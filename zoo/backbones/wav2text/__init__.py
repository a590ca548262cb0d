"""A small offline encoder-decoder from waveform to text, trained here."""
