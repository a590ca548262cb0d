"""python evaluate.py [system=... data=... key=value]: stream talks through a system, score them, write a report."""

from omegaconf import DictConfig

from zoo.config import entry_point
from zoo.evaluation.job import evaluate


def main(cfg: DictConfig) -> None:
    """One evaluation; see conf/evaluate.yaml for what can be chosen."""
    evaluate(cfg)


if __name__ == "__main__":
    entry_point("evaluate", main)
