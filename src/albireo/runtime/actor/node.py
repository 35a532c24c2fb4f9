"""A whole node in this process: its supervisor, the signals, and the exit code that tells the next step."""

import asyncio
import faulthandler
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from albireo.codec.questions.kind import Handled
from albireo.runtime.actor.exits import EXIT_CONFIGURATION, EXIT_DATA, EXIT_HUNG, STOP_SIGNALS
from albireo.runtime.actor.placement import ActorSpec
from albireo.runtime.actor.supervision import SupervisionConfig
from albireo.runtime.actor.supervisor import DEFAULT_CONFIG, ActorChanged, BootAnswer, PlacementName, Supervisor
from albireo.runtime.actor.tuning import end_of_start, tune_process
from albireo.runtime.errors import StartFailed
from albireo.runtime.line_writer import last_words, never_block
from albireo.runtime.loop import ActorLoop, IdleCollection


def run_node(
    data: Path,
    specs: Sequence[ActorSpec],
    placement: PlacementName = "process",
    *,
    config: SupervisionConfig = DEFAULT_CONFIG,
    on_change: Callable[[ActorChanged], object] | None = None,
    on_started: Callable[[Supervisor], object] | None = None,
    log_level: str = "info",
    answers: Sequence[Handled[BootAnswer]] = (),
) -> int:
    """Run a node in this process until SIGTERM, SIGINT or SIGHUP; for the main thread.

    Ctrl-C while it stops ends everything at once; the other signals often come twice, and are one wish. Nothing that
    it says on its standard streams delays it (`never_block`).

    Returns:
        The exit code: 0 stopped cleanly; 1 gave up; 65 its data are damaged; 75 to be started again (a thread hangs);
        78 configuration refused. The reason is on stderr. With 75 this does not return: the process ends here.
    Raises:
        DataLocked, DirectoryUnsafe: nothing was started.
    """
    never_block()
    tune_process()
    supervisor = Supervisor(
        data, specs, placement, config=config, on_change=on_change, log_level=log_level, answers=answers
    )
    with asyncio.Runner(loop_factory=ActorLoop) as runner:
        code = runner.run(_run(supervisor, on_started))
        if supervisor.hung:
            # Where each thread is: nothing else tells why it hangs.
            with os.fdopen(os.memfd_create("stacks"), "w+") as stacks:
                faulthandler.dump_traceback(stacks)
                stacks.seek(0)
                sys.stderr.write(stacks.read())
            last_words()
            os._exit(EXIT_HUNG)
    return code


async def _run(supervisor: Supervisor, on_started: Callable[[Supervisor], object] | None) -> int:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, ActorLoop)
    is_stopping = False

    def signalled(number: int) -> None:
        nonlocal is_stopping
        if is_stopping and number == signal.SIGINT:
            os._exit(128 + number)  # The kernel ends the actors with us.
        is_stopping = True
        supervisor.request_stop()

    for number in STOP_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            loop.add_signal_handler(number, signalled, number)
    collection = IdleCollection(loop, lambda: loop.turns.count)
    try:
        if await supervisor.start():
            collection.start()
            end_of_start()
            if on_started is not None:
                on_started(supervisor)
        escalated = await supervisor.wait()
    except StartFailed as error:
        return _give_up(error.reason, error.exit_code)
    finally:
        collection.stop()
    return 0 if escalated is None else _give_up(escalated.reason, escalated.exit_code)


def _give_up(reason: str, exit_code: int) -> int:
    remedy = {
        EXIT_CONFIGURATION: "correct it and start the node again",
        EXIT_DATA: "nothing of it was changed; start the node again when that is done",
        EXIT_HUNG: "this process ends; start the node again",
    }.get(exit_code, "its log says more; nothing committed is lost")
    print(f"albireo: the node gives up: {reason} ({remedy})", file=sys.stderr, flush=True)  # noqa: T201
    return exit_code
