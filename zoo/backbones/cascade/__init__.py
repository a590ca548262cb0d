"""A recogniser and a text LLM behind one backbone contract."""
