"""Lists what can be overridden: ``python -m zoo keys``."""

from zoo.commands.keys import main

if __name__ == "__main__":
    main()
