"""A host name that no resolver takes: the device is lost, and its adapter lives on."""

from pathlib import Path

import pytest

from albireo.model.quality import BAD_NO_COMMUNICATION, GOOD
from albireo.runtime.actor.actor import running
from tests.parts.field import RecordingCore, comm, in_loop, until

ROWS = [{"name": "co", "kind": "holding", "address": "0", "type": "uint16"}]


@pytest.mark.parametrize("host", ["plc..hall", "p" * 64 + ".hall"])
def test_a_name_that_can_not_be_resolved_is_a_lost_device_and_no_crash(host: str, tmp_path: Path) -> None:
    arguments = {"name": "p1", "kind": "modbus", "url": f"tcp://{host}:502", "items": ROWS, "poll_ms": 20}

    async def story() -> None:
        core = RecordingCore()
        async with running(core, tmp_path), running(comm(arguments), tmp_path):
            await until(lambda: core.last_of("p1/connected") == (False, GOOD))
            await until(lambda: len(core.history("p1/connected")) > 3, "it says so again")
            assert core.last_of("co") == (0, BAD_NO_COMMUNICATION)

    in_loop(story)
