"""Audio files as tensors, and the formats that ffmpeg decodes."""
