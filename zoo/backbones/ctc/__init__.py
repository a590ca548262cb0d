"""Recognisers with a CTC head."""
