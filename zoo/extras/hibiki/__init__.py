"""Hibiki and Hibiki-Zero (Kyutai): speech and text of two languages as streams of tokens."""
