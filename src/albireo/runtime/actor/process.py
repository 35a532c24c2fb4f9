"""The main program of an actor process: `python -P -m albireo.runtime.actor.process NAME` with a `Launch` on stdin.

The process dies with boot, also when it hangs (PR_SET_PDEATHSIG). SIGTERM, SIGINT and SIGHUP, which boot holds back
until this process hears them, are the wish for a clean stop; boot decides when, for they often come to all at once.
"""

import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import Final

import msgspec

from albireo.codec.message import StopAsked
from albireo.runtime.actor.actor import ActorContext, Supervised
from albireo.runtime.actor.exits import EXIT_CONFIGURATION, STOP_SIGNALS
from albireo.runtime.actor.keep import Keep
from albireo.runtime.actor.placement import EXIT_CRASHED, LAUNCH_BYTES_MAX, REASON_BYTES_MAX, Launch, live
from albireo.runtime.actor.tuning import end_of_start, tune_process
from albireo.runtime.directory import DataLock
from albireo.runtime.line_writer import last_words, never_block
from albireo.runtime.loop import IdleCollection

_PR_SET_PDEATHSIG: Final = 1
"""prctl(2)"""


def main() -> int:
    """Read the launch, live, end with the exit code that boot understands."""
    never_block()
    try:
        launch = msgspec.json.decode(sys.stdin.buffer.read(LAUNCH_BYTES_MAX), type=Launch)
    except msgspec.DecodeError as error:
        print(f"albireo.runtime.actor.process: not a launch on stdin: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_CONFIGURATION
    if not die_with(launch.boot_pid):
        return EXIT_CRASHED
    tune_process()
    os.nice(launch.spec.nice)
    supervised = Supervised(
        identity=launch.identity.encode(),
        lock=DataLock(launch.lock_descriptor),
        log_level=launch.log_level,
        keep=Keep(launch.keep_descriptors),
    )
    ending = live(launch.spec, Path(launch.data), supervised, _settle)
    if ending.exit_code != 0:
        os.pwrite(launch.reason_descriptor, ending.reason.encode(errors="replace")[:REASON_BYTES_MAX], 0)
        # Not sys.exit: a helper thread that the crashed behaviour left behind must not keep the process.
        last_words()
        os._exit(ending.exit_code)
    return 0


def die_with(boot_pid: int) -> bool:
    """Have the kernel end this process when boot ends; False if boot has ended already."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    return os.getppid() == boot_pid


def _settle(context: ActorContext) -> None:
    """Prepare a process for its one actor."""
    for number in STOP_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            context.loop.add_signal_handler(number, context.tell_boot, StopAsked())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    collection = IdleCollection(context.loop, lambda: context.turns.count)
    context.at_ready(collection.start)
    context.at_ready(end_of_start)
    context.at_end(collection.stop)


if __name__ == "__main__":
    sys.exit(main())
