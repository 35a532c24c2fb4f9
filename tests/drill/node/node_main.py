"""A small node for the drills: `python node_main.py DATA PLACEMENT [ACTOR...]`, its actors are those of actors.py.

The environment may say after how many ms an actor is silent; otherwise no machine is so slow that one is.
"""

import os
import signal
import sys
from pathlib import Path

from albireo.model.instant import MS, SECOND
from albireo.runtime import ActorSpec, DataLocked
from albireo.runtime.actor.node import run_node
from albireo.runtime.actor.supervision import SupervisionConfig

SILENT_VARIABLE = "DRILL_SILENT_MS"
CONFIG = SupervisionConfig(
    first_backoff_ns=10 * MS,
    ask_every_ns=100 * MS,
    silent_after_ns=int(os.environ.get(SILENT_VARIABLE, "120000")) * MS,
    stop_within_ns=120 * SECOND,
)


def main() -> int:
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)  # Whoever runs the tests in the background has them ignored.
    data, placement, *names = sys.argv[1:]
    specs = [
        ActorSpec("logger", "albireo.node.logger:create", {"target": "file"}, is_essential=False),
        *(
            ActorSpec(name, "tests.drill.node.actors:create", {"name": name, "crash_at_start": name == "crasher"}, 1)
            for name in names
        ),
    ]
    try:
        return run_node(
            Path(data),
            specs,
            "thread" if placement == "thread" else "process",
            config=CONFIG,
            on_started=lambda _: print("started", flush=True),
        )
    except DataLocked as error:
        print(error, file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
