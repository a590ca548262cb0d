"""Audio files as tensors, and the formats that FFmpeg's libraries decode."""
