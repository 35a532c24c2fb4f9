"""Signals that end actors and the node, and the exit codes of both. After sysexits.h."""

import signal
from typing import Final

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Wish for a clean stop. One that was ignored at the start stays so (nohup, shells without job control)."""
EXIT_ESCALATED: Final = 1
EXIT_DATA: Final = 65
"""EX_DATAERR: data of an actor on the disk are damaged beyond its own repair; a human must act."""
EXIT_HUNG: Final = 75
"""EX_TEMPFAIL: whoever started this process should start it again."""
EXIT_CONFIGURATION: Final = 78
"""EX_CONFIG: an actor can't start with its arguments."""
FINAL: Final = frozenset({EXIT_DATA, EXIT_CONFIGURATION})
"""An actor ends with these when starting it again cannot help."""
