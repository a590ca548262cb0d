"""python evaluate.py [system=NAME key=value]: stream talks through a system and score them."""

from zoo.commands import evaluate

if __name__ == "__main__":
    evaluate()
