"""Names of the files in a run folder that more than one package reads or writes."""

RUN_CARD = "run.json"  # id, kind, name and group of the run
OVERRIDES = "overrides.yaml"  # overrides of the first start
PROVENANCE = "provenance.json"  # commit, packages, machine and data of the run
METRICS = "metrics.csv"  # logged values
RESULTS = "results.json"  # rows of scores, of an evaluation
