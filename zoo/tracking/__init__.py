"""Who a run is and what it leaves behind: its folder, id, provenance, and the loggers. Knows no model and no metric."""
