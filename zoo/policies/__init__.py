"""Policies decide when to write and how much of a hypothesis."""
