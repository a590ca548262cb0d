"""Logs and reference files of SimulEval, OmniSTEval, simulstream and FBK."""
