"""Streaming systems: a backbone, a policy and a history bound together, or a recorded log."""
