"""Speech encoder, adapter and causal LM: the network that InfiniSST and LST share."""
