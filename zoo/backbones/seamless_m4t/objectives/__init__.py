"""What the parts of a small SeamlessM4T are trained for."""
