"""Metrics of translation quality, latency and target speech, computed from instances."""
