"""A speech LLM behind an OpenAI-compatible HTTP server."""
