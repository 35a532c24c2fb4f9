"""Runs a command of Albireo that ends when whoever started it is gone.

    python -m albireo.cli.end_with_parent COMMAND ARGUMENTS...

The starter keeps the other end of our standard input. When it closes - also by `kill -9` - we get SIGTERM, which every
command takes as a clean stop.
"""

import os
import signal
import threading

from albireo.cli import main


def _watch() -> None:
    while os.read(0, 64):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_watch, name="end-with-parent", daemon=True).start()
    main()
