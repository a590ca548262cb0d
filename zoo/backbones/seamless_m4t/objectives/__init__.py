"""Training objectives of the parts of a small SeamlessM4T."""
