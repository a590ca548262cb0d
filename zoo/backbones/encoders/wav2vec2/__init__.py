"""The streaming wav2vec 2.0 encoder: features, layers, adapter and published weights."""
