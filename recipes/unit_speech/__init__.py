"""Training objectives of a small SeamlessM4T with speech output (experiment=simulu_minitalks)."""
