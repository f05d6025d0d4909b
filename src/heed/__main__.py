"""`python -m heed` is `heed`."""

from heed.cli import main

if __name__ == "__main__":
    main()
