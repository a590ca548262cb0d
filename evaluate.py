"""python evaluate.py [system=NAME key=value]: stream talks through a system and score them."""

from zoo.apps.evaluate import main as evaluate

if __name__ == "__main__":
    evaluate()
