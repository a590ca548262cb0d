"""Speech recognition of target speech, for ASR scores such as ASR-BLEU."""
