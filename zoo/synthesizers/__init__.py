"""Text to speech for speech-to-speech translation systems."""
