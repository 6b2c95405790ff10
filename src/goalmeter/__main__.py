"""`python -m goalmeter` is `goalmeter`."""

import os
import signal
import sys

__all__ = ["main"]


def main(*words: str) -> None:
    """Run the command line; an interrupt while it is still being imported ends it quietly.

    `words` come before the arguments, for a script that is one command.
    """
    sys.argv[1:1] = words
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
        from goalmeter.cli import main as run

        signal.signal(signal.SIGINT, signal.default_int_handler)
    else:  # it is ignored, as in the background of a shell
        from goalmeter.cli import main as run
    run()


if __name__ == "__main__":
    main()
