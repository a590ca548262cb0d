"""Lists what can be overridden: ``python -m zoo keys``."""

from zoo.apps.keys import main

if __name__ == "__main__":
    main()
