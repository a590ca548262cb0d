"""Submissions to a campaign: processor, Dockerfile, and logs of development talks."""
