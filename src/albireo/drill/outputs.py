"""Outputs: orders that never stop, one at a time per guard level, and what the PLCs made of them.

Each order is given after the outcome of the one before is known. So in a plain register, where nothing tells who wrote,
a value below one that was there before came from an order that was overtaken.
"""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from albireo.client import Client, ClientError, connect
from albireo.drill.load import Worker
from albireo.drill.plcs import GATED, GATED_ADDRESS, LEASE_ADDRESS, STAMP_ADDRESS
from albireo.plant.tunnel.plc.orders import CarriedOrder
from albireo.runtime.link.keys import Keys
from albireo.runtime.link.lines import LineTo

REFUSING: Final = ("plc", "gate")
"""Levels at which a late order is refused."""
PLAIN: Final = ("stamp", "lease")
LEVELS: Final = (*REFUSING, *PLAIN)
PAUSE_S: Final = 0.1
EXPIRES_S: Final = 1.0
ANSWER_S: Final = 5.0
SPEEDS: Final = range(30, 101)
"""Values that the guarded set point takes."""


class OutputWriter(Worker):
    """Orders of one guard level, in a thread of its own."""

    def __init__(self, level: str, members: Sequence[LineTo], keys: Keys | None) -> None:
        super().__init__(f"writer.{level}", members, keys)
        self.outcomes: Counter[str] = Counter()
        self.level = level
        self._number = 0
        self._is_writing = threading.Event()

    def write(self, *, is_on: bool) -> None:
        if is_on:
            self._is_writing.set()
        else:
            self._is_writing.clear()

    def _work(self) -> None:
        with connect(self._members, keys=self._keys, timeout_s=ANSWER_S, name="drill", waits=False) as client:
            while not self._is_stopping.wait(PAUSE_S):
                if self._is_writing.is_set():
                    self._order(client)

    def _order(self, client: Client) -> None:
        self._number += 1
        value = SPEEDS[self._number % len(SPEEDS)] if self.level == "plc" else self._number
        try:
            receipt = client.write(f"out_{self.level}", value, expires_s=EXPIRES_S)
        except ClientError as error:
            self.outcomes[type(error).__name__] += 1
            return
        self.outcomes[receipt.outcome] += 1


class OutputJudgement(msgspec.Struct, frozen=True, kw_only=True):
    """Judgement of the PLCs' outputs in one round; None: a level wrote nothing, so nothing is known."""

    stale_writes: int | None
    stale_plain: int | None
    details: tuple[str, ...] = ()


class OutputWriters:
    """The writers of all levels, and the judgement of what the PLCs noted."""

    def __init__(
        self, members: Sequence[LineTo], keys: Keys | None, carried: Mapping[str, Sequence[CarriedOrder]]
    ) -> None:
        self.writers = [OutputWriter(level, members, keys) for level in LEVELS]
        self._carried = carried

    def start(self) -> None:
        for writer in self.writers:
            writer.start()

    def write(self, *, is_on: bool) -> None:
        for writer in self.writers:
            writer.write(is_on=is_on)

    def stop(self) -> None:
        for writer in self.writers:
            writer.stop()

    def brief(self) -> list[str]:
        """Outcomes of the orders, by level, for whoever wonders why nothing is written."""
        counts = self.counts()
        return [
            f"outputs {one.level}: {counts[one.level]} carried out, told {dict(one.outcomes)}" for one in self.writers
        ]

    def counts(self) -> dict[str, int]:
        """Orders carried out so far, by level."""
        return {level: len(orders) for level, orders in self._by_level().items()}

    def judge(self, since: Mapping[str, int]) -> OutputJudgement:
        """The orders carried out after the counts of `since`, each against all before it."""
        stale: dict[str, list[int]] = {}
        silent = [level for level in LEVELS if self.counts()[level] <= since[level]]
        for level, ranks in self._by_level().items():
            highest = max(ranks[: since[level]], default=0)
            stale[level] = []
            for rank in ranks[since[level] :]:
                if rank < highest:
                    stale[level].append(rank)
                highest = max(highest, rank)
        details = [f"{level}: {len(ranks)} stale: {ranks[:5]}" for level, ranks in stale.items() if ranks]
        details += [f"{level}: no output was written" for level in silent]
        return OutputJudgement(
            stale_writes=None if set(REFUSING) & set(silent) else sum(len(stale[level]) for level in REFUSING),
            stale_plain=None if set(PLAIN) & set(silent) else sum(len(stale[level]) for level in PLAIN),
            details=tuple(details),
        )

    def _by_level(self) -> dict[str, list[int]]:
        """Numbers that must not fall, as the PLCs wrote them: the epoch, or a value that only rises."""
        return {
            "plc": [one.epoch for one in self._carried["p1"] if one.way == "mailbox"],
            "gate": [one.words[0] for one in self._plain(GATED, GATED_ADDRESS)],
            "stamp": [_epoch(one.words) for one in self._plain("p2", STAMP_ADDRESS)],
            "lease": [one.words[0] for one in self._plain("p2", LEASE_ADDRESS)],
        }

    def _plain(self, plc: str, address: int) -> list[CarriedOrder]:
        return [one for one in list(self._carried[plc]) if one.way == "plain" and one.name == str(address)]


def _epoch(words: Sequence[int]) -> int:
    """Value, epoch (high word first), epoch, count."""
    return words[1] << 16 | words[2]
