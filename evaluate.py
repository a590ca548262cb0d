"""python evaluate.py [system=NAME key=value]: stream talks through a system and score them."""

from zoo.config import entry_point

if __name__ == "__main__":
    entry_point("evaluate", "zoo.commands.evaluation:evaluate")
