"""python evaluate.py [system=... data=... key=value]: stream talks through a system, score them, write a report."""

from omegaconf import DictConfig

from zoo.config import entry_point


def main(cfg: DictConfig) -> None:
    """One evaluation; see conf/evaluate.yaml for what can be chosen."""
    from zoo.evaluation.job import evaluate  # slow to import: a mistyped key is told at once

    evaluate(cfg)


if __name__ == "__main__":
    entry_point("evaluate", main)
