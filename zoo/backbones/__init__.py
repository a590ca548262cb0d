"""Networks behind one contract: what would they say now? They know no policy, no clock and no metric."""
