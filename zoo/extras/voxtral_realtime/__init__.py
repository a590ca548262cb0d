"""Voxtral-Realtime behind the backbone contract."""
