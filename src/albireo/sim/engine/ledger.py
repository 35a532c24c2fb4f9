"""Ledger of what a world knows better than its members: each epoch's sets, who acts in it, the numbers of producers.

Checked here
    nobody acts in an epoch that no majority of the voters granted; one run of one member acts in an epoch;
    the number of each producer's batches rises by one.

Spec: design/pair.md, rule 3.
"""

from collections import defaultdict
from collections.abc import Callable

import msgspec

from albireo.codec.pair_message import Record


class Tenure(msgspec.Struct):
    """One epoch: what its holder asked the voters for, what they have, who acted in it."""

    asked: dict[int, tuple[int, ...]] = {}
    accepted: dict[int, set[str]] = {}
    confirmed: int = 0
    """Highest version that a majority of the voters has, or had; 0: none."""
    holder: tuple[int, int] | None = None
    """Index and run of the member that acted in this epoch; None: nobody did."""

    @property
    def required(self) -> set[int]:
        """Members that must have what is committed now: those of the confirmed set and of every set asked for since."""
        later = (members for version, members in self.asked.items() if version >= self.confirmed)
        return {member for members in later for member in members}


class Tenures:
    """Judge of the tenures and the producers' numbers of one world."""

    def __init__(self, majority: int, fail: Callable[[str], None]) -> None:
        self._majority = majority
        self._fail = fail
        self._tenures: defaultdict[int, Tenure] = defaultdict(Tenure)
        self._numbers: dict[int, int] = {}

    def asks(self, proposed: Record) -> None:
        """Note that a holder or candidate sends this record to the voters."""
        self._tenures[proposed.epoch].asked.setdefault(proposed.version, proposed.members)

    def accepts(self, voter: str, accepted: Record) -> None:
        """Note that a voter has this record on its disk."""
        tenure = self._tenures[accepted.epoch]
        voters = tenure.accepted.setdefault(accepted.version, set())
        voters.add(voter)
        if len(voters) >= self._majority:
            tenure.confirmed = max(tenure.confirmed, accepted.version)

    def _acts(self, index: int, run: int, epoch: int, what: str) -> Tenure:
        tenure = self._tenures[epoch]
        if not tenure.confirmed:
            self._fail(f"{index} {what} in epoch {epoch}, which no majority of voters granted")
        if tenure.holder not in (None, (index, run)):
            self._fail(f"{index} (run {run}) {what} in epoch {epoch}, which is that of {tenure.holder}")
        tenure.holder = (index, run)
        return tenure

    def _counts(self, producer: int, number: int, by: int = 1) -> None:
        """Check the number of a batch that is committed for the first time."""
        if number != self._numbers.get(producer, 0) + by:
            self._fail(f"producer {producer}: {number} committed behind {self._numbers.get(producer, 0)}")
        self._numbers[producer] = number
