"""Ctrl-C at any instant of a command: it ends, and nobody sees a traceback."""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.long_form import IS_LONG
from tests.parts.waiting import PATIENCE_S

pytestmark = pytest.mark.slow

LOADING: Final = "from albireo.cli import main; print(flush=True); main()"
"""Says when the modules that every command needs are loaded."""
DROPPED: Final = """
import signal, threading, types, click
from albireo.cli import COMMANDS, main

class Finalized:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

@click.command()
def command():
    Finalized()
    threading.Event().wait()

sys.modules["endless"] = module = types.ModuleType("endless")
module.command = command
COMMANDS["endless"] = ("endless", "")
main()
"""
ENDS: Final = {1, -signal.SIGINT}
ROUNDS: Final = 100 if IS_LONG else 5


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Path]:
    """A node that runs as a process of its own."""
    program = """
import asyncio, sys
from pathlib import Path
from tests.parts.client import lone

async def world():
    async with lone(Path(sys.argv[1])):
        print(flush=True)
        await asyncio.Event().wait()

asyncio.run(world())
"""
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline()
            yield tmp_path
        finally:
            process.kill()


def test_an_interrupt_that_python_drops_ends_the_command() -> None:
    ran = subprocess.run([sys.executable, "-c", f"import sys\n{DROPPED}", "endless"], timeout=PATIENCE_S, check=False)
    assert ran.returncode == -signal.SIGINT


def test_two_interrupts_end_a_command_that_waits_wherever_they_come(node: Path) -> None:
    chance = random.Random(1)
    for _ in range(ROUNDS):
        command = [sys.executable, "-c", LOADING, "message", "receive", "--data", str(node)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None and process.stdout.readline()
            for pause_s in (chance.uniform(0, 0.8), chance.choice((0, 0.001, 0.01))):
                time.sleep(pause_s)  # What is tried is the instant of the signal; nothing is awaited.
                process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=PATIENCE_S)
        assert process.returncode in ENDS
        assert "Traceback" not in said and "ignored" not in said, said
