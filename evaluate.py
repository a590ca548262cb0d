"""python evaluate.py [system=NAME key=value]: stream talks through a system and score them."""

from zoo.apps.evaluate import main

if __name__ == "__main__":
    main()
