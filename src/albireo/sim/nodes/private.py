"""Private logs in the world of whole nodes: their threads, and what is checked of them.

Checked here
    at the commit of a reference, that its payload is on the disk of the member that took it, unless that disk was
    exchanged since: nobody is told of a batch whose values a crash could still take away;
    whoever is given a whole frame is given the one that was taken; nobody is given one by the other member;
    the history of the member that took a batch gets its values.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from albireo.codec import record, reference
from albireo.codec.frame import Frame, encode_header, header_crc_of
from albireo.model.position import Position
from albireo.sim.nodes.log import StagedLog

if TYPE_CHECKING:
    from albireo.sim.nodes.machines import MemberMachine


class Payloads:
    """What was stored privately, by anybody."""

    def __init__(self, fail: Callable[[str], None]) -> None:
        self._fail = fail
        self._stored: dict[tuple[bytes, int], Frame] = {}
        """By log and first sequence."""
        self._synced: dict[bytes, int] = {}
        """By log: last sequence on its disk."""
        self._wholes: dict[int, int] = {}
        """By last sequence in the pair's log: header CRC of the whole frame."""
        self.count = 0
        """References committed."""

    def stored(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            self._stored[frame.header.log_id, frame.header.first_sequence] = frame

    def synced(self, log: StagedLog) -> None:
        """Also as a recovery found it."""
        if log.durable.sequence < self._synced.get(log.log_id, 0):
            self._fail(f"a private log ends at {log.durable}, {self._synced[log.log_id]} was durable")
        self._synced[log.log_id] = log.durable.sequence

    def gone(self, log_id: bytes) -> None:
        """Its disk was exchanged: what stood in it does so no more."""
        self._synced.pop(log_id, None)

    def committed(self, frame: Frame) -> Frame:
        """The whole frame, where its payload is known; as it stands if it is no reference."""
        if not reference.is_reference(frame):
            return frame
        self.count += 1
        meant = reference.decode(frame.body)
        payload = self._stored.get((meant.log_id, meant.sequence))
        if payload is None or payload.header.body_crc != meant.body_crc:
            self._fail(f"{frame.header.last} refers to {meant.sequence}, which was never stored")
            return frame
        producer, _ = record.decode_producer(frame.body)
        on_disk = self._synced.get(meant.log_id)
        if producer and on_disk is not None and on_disk < payload.header.last_sequence:
            self._fail(f"{frame.header.last} is committed, its payload {payload.header.last} is not on the disk")
        whole = reference.whole(frame, meant, payload.body)
        self._wholes[frame.header.last_sequence] = header_crc_of(encode_header(whole.header))
        return whole

    def stands_in(self, log: StagedLog, frame: Frame) -> bool:
        """What this reference refers to is on the disk of this log, where it has to stay as long as the reference."""
        meant = reference.decode(frame.body)
        payload = self._stored.get((meant.log_id, meant.sequence))
        is_same = payload is not None and payload.header.body_crc == meant.body_crc
        return is_same and meant.log_id == log.log_id and meant.sequence <= log.durable.sequence

    def knows(self, frame: Frame) -> bool:
        """It is the whole frame that a committed reference stands for."""
        return self._wholes.get(frame.header.last_sequence) == frame.header.header_crc


class PrivateWatch:
    """One member's private log, and its threads. A `log.Watcher`."""

    def __init__(self, machine: "MemberMachine", payloads: Payloads) -> None:
        self._machine = machine
        self._payloads = payloads
        self.log: StagedLog | None = None
        """Of the running process."""
        self._log_id = b""
        self._is_due = False

    def begin(self) -> None:
        """Another process."""
        self.log, self._is_due = None, False

    def exchanged(self) -> None:
        """The disk is another one."""
        self._payloads.gone(self._log_id)

    def opened(self, log: StagedLog) -> None:
        self.log, self._log_id = log, log.log_id
        self._payloads.synced(log)

    def appended(self, frames: Sequence[Frame]) -> None:
        self._payloads.stored(frames)

    def committed(self, position: Position) -> None:
        """Its own sync: nobody else has to have it."""

    def cutting(self, sequence: int) -> None:
        raise AssertionError("a private log is never cut")

    def cut(self, sequence: int) -> None:
        raise AssertionError("a private log is never cut")

    def turned(self) -> None:
        """Behind each turn: what its threads would do now begins."""
        log, world = self.log, self._machine.world
        if log is None or self._is_due or not (log.durable.sequence < log.end.sequence or log.wants_house):
            return
        self._is_due = True
        world.agenda.call_at(world.agenda.at + world.sync_ns(), partial(self._work, log, self._machine.actor))

    def _work(self, log: StagedLog, actor: object) -> None:
        machine, agenda = self._machine, self._machine.world.agenda
        if log is not self.log or machine.actor is None or actor is not machine.actor or not machine.actor.is_alive:
            return
        until = max(machine.actor.paused_until, machine.hung_until)
        if until > agenda.at:
            agenda.call_at(until, partial(self._work, log, actor))
            return
        self._is_due = False
        for work in (log.flush, log.keep_house):
            if machine.actor.is_alive and log._work.failure is None:
                machine.aside(work)
        if machine.actor.is_alive and log._work.failure is None:
            self._payloads.synced(log)
            self.turned()

    def is_here(self, frame: Frame) -> bool:
        """The payload of this reference stands in the log that runs here."""
        return self.log is not None and self._payloads.stands_in(self.log, frame)
