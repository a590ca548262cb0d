"""Histories decide which audio and text a stream keeps."""
