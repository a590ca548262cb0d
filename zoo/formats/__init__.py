"""Logs and reference files of SimulEval, OmniSTEval, simulstream, StreamUni and FBK."""
