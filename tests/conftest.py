"""What holds for every test: a slow machine, or one that stands still for a second, is no failure."""

import fcntl
import gc
import os
import signal
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tests.long_form import examples

TOGETHER: Final = (
    "tests/unit/pipeline/",
    "tests/drill/node/test_node_cli_drill.py",
    "tests/drill/node/test_node_drill.py",
    "tests/drill/node/test_remote_node_drill.py",
    "tests/drill/pair/test_remote_pair_drill.py",
    "tests/drill/pair/test_switchover_drill.py",
    "tests/test_tidy.py",
    "tests/unit/cli/test_history_cli.py",
)
"""Tests below one of these share what is costly to make, so one worker runs them all."""
EACH_FILE: Final = "tests/interop/web/"
"""Tests of a file below this share a browser."""

# A shell lets what it starts in the background ignore Ctrl-C, and so would all that the tests start and press it at.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Both would judge the machine: the time of one example, and the time in which the first ones are drawn.
settings.register_profile(
    "machine-independent", deadline=None, max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("machine-independent")


def pytest_collection_finish() -> None:
    """Keep the garbage collector from 15,000 collected tests: it took a tenth of the time of a simulated world."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Of all workers on this machine one runs a crowd, or each of them a drill. Waiting is no time of the test."""
    is_crowd = item.get_closest_marker("crowd") is not None
    if not is_crowd and item.get_closest_marker("drill") is None:
        return (yield)
    with Path(tempfile.gettempdir(), f"albireo-tests-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if is_crowd else fcntl.LOCK_SH)
        try:
            return (yield)
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)  # Else a child that was forked meanwhile would hold it.


class OneByOne(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types.
    """Hands out tests one by one, but TOGETHER and EACH_FILE. Marks of xdist for groups do nothing in pytest 9.2."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(EACH_FILE):
            return nodeid.partition("::")[0]
        return next((place for place in TOGETHER if nodeid.startswith(place)), nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        """The first worker takes the first one, so the drills, which mostly wait; all others take the last one, so what
        needs the processor in the meantime."""
        if node is not next(iter(self.assigned_work)):
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Forgets what is done: all of it is looked through at the end of each test."""
        super().mark_test_complete(node, item_index, duration)
        place = self._split_scope(self.registered_collections[node][item_index])
        if all(self.assigned_work[node][place].values()):
            del self.assigned_work[node][place]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneByOne:
    config.option.loadscopereorder = False  # Else the drills wait for all that is TOGETHER, and meet at the end.
    return OneByOne(config, log)
