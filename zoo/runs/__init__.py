"""Run folders, run ids, provenance and loggers (CSV, W&B) of trainings and evaluations."""
