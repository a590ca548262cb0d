"""python -m zoo evaluate [key=value]: stream talks through systems and score them."""

from zoo.apps.evaluate import main

if __name__ == "__main__":
    main()
