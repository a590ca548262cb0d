"""Results for people: logs, tables, plots, the page. Computes no score."""
