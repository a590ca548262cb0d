"""Trainings that make one shipped checkpoint each; no part of the installed package."""
