"""`python -m goalmeter` is `goalmeter`."""

from goalmeter.cli import main

if __name__ == "__main__":
    main()
