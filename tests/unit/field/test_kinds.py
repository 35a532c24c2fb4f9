"""Adapters of one process are made one after another, whoever offers their kind."""

import threading
from pathlib import Path

import pytest

from albireo.field import ENTRY_POINTS
from albireo.field.kinds import Surroundings, create_adapter
from albireo.runtime.actor.clock import boot_ns

MEETING = threading.Barrier(2, timeout=0.2)
MET: list[int] = []


def wait_for_another(arguments: object, surroundings: object) -> None:
    """Factory that sees whether another one is at work at the same time."""
    del arguments, surroundings
    MET.append(MEETING.wait())


def test_no_two_adapters_are_made_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both read their arguments as the same type of msgspec (0.22), and two threads that use one for the first time at
    once end the process. A node of two Modbus adapters in threads died so, now and then, as it started."""
    offering = tmp_path / "meeting-1.0.dist-info"
    offering.mkdir()
    (offering / "METADATA").write_text("Metadata-Version: 2.1\nName: meeting\nVersion: 1.0\n")
    (offering / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\nmeeting = {__name__}:{wait_for_another.__name__}\n")
    monkeypatch.syspath_prepend(tmp_path)

    def made() -> None:
        with pytest.raises(threading.BrokenBarrierError):
            create_adapter("meeting", {}, Surroundings(tmp_path, boot_ns))

    threads = [threading.Thread(target=made) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert MET == []
