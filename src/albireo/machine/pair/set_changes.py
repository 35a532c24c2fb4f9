"""The in-sync set of one tenure: what was asked of the voters, what they confirmed, who must have a record.

A shrink counts when it is confirmed, an add from the moment it is sent. Both are one rule: a record is acknowledged
when every member of the confirmed set and of every set asked for since has it.

Spec: design/pair.md, rule 3.
"""

import msgspec


class Proposal(msgspec.Struct):
    """One version of the record under this epoch."""

    version: int
    members: tuple[int, ...]
    accepted_by: set[str]


class SetChanges:
    """Versions of the record of one epoch, from the newest confirmed one on."""

    def __init__(self, members: tuple[int, ...], majority: int) -> None:
        self._majority = majority
        self._proposals = [Proposal(1, members, set())]
        self.confirmed: tuple[int, ...] = ()
        """Set of the newest confirmed version; empty while nothing is confirmed."""
        self.required = self._required()
        """Members that must have a record durable before it is acknowledged."""
        self._confirm()

    @property
    def latest(self) -> Proposal:
        return self._proposals[-1]

    @property
    def has_unresolved(self) -> bool:
        return len(self._proposals) > 1 or not self.confirmed

    def ask(self, members: tuple[int, ...]) -> int:
        """Add a version with these members, to be sent until it is confirmed; returns its number."""
        version = self.latest.version + 1
        self._proposals.append(Proposal(version, members, set()))
        self._confirm()
        return version

    def accepted(self, voter: str, version: int) -> bool:
        """Count a voter that holds this version; True: that confirmed it."""
        for proposal in self._proposals:
            if proposal.version == version:
                proposal.accepted_by.add(voter)
        return self._confirm()

    def _confirm(self) -> bool:
        is_new = False
        for index in range(len(self._proposals) - 1, -1, -1):
            proposal = self._proposals[index]
            if len(proposal.accepted_by) >= self._majority:
                is_new = index > 0 or not self.confirmed
                del self._proposals[:index]
                self.confirmed = proposal.members
                break
        self.required = self._required()
        return is_new

    def _required(self) -> frozenset[int]:
        return frozenset(member for proposal in self._proposals for member in proposal.members)

    def decide(self) -> None:
        """Confirm the latest version by the operator's word (force), or because there are no voters to ask."""
        del self._proposals[:-1]
        self.confirmed = self.latest.members
        self.required = self._required()
