"""Seeker: which member of a pair a client talks to.

Each member says whether it acts (`RoleTold`): at once when it is asked, and again when that changes. So a client asks
both, stays with the acting member, and moves when another member acts under a higher epoch. It never guesses.

    seeking --acts, epoch as high as any heard--> settled on a member
       ^                                               |
       +--- its line is down, it stands by, is silent -+        another acts under a higher epoch: settled on that one

The epoch is a hint, not a law: a member that acts under a lower epoch than was heard is late, or the pair was begun
anew. Such a member is chosen when none with a higher epoch has spoken for `settle_ns`, which is longer than a takeover.

Not done here: connecting, sending (machine.producer.sending), deciding which member acts (machine.pair.member).

Spec: design/pair.md, rules 2 and 7; ADR-0115.
"""

from typing import assert_never

import msgspec

from albireo.codec.message import RoleTold
from albireo.model.instant import MS, Instant, TimePassed


class SeekConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Patience of a client; all in nanoseconds of the boot clock."""

    ask_ns: int = 100 * MS
    """While no member is known to act, every member in reach is asked this often. A member also says so unasked."""
    watch_ns: int = 1_000 * MS
    """While one member acts, the others are asked this often, so that they know whom to tell of a takeover."""
    settle_ns: int = 1_700 * MS
    """As long as the slowest takeover that is promised: a shorter silence of the acting member is waited out."""

    def __post_init__(self) -> None:
        if not 0 < self.ask_ns <= self.watch_ns or self.settle_ns <= self.ask_ns:
            raise ValueError("0 < ask_ns <= watch_ns, and settle_ns above ask_ns")


class LineUp(msgspec.Struct, frozen=True):
    """A connection to a member is there, proven by its keys."""

    member: int


class LineDown(msgspec.Struct, frozen=True):
    """The connection to a member has ended; messages under way may have arrived or not."""

    member: int


class RoleHeard(msgspec.Struct, frozen=True):
    """A member said whether it acts."""

    member: int
    role: RoleTold


class TurnedAway(msgspec.Struct, frozen=True):
    """A member refused because it does not act."""

    member: int


class FellSilent(msgspec.Struct, frozen=True):
    """A member that should have answered has not, for `settle_ns`."""

    member: int


class AskRole(msgspec.Struct, frozen=True):
    """Effect: ask this member whether it acts."""

    member: int


class Chose(msgspec.Struct, frozen=True):
    """Effect: from now on talk to this member, from the beginning (hello); None: to nobody, until one acts."""

    member: int | None


Event = LineUp | LineDown | RoleHeard | TurnedAway | FellSilent | TimePassed
Effect = AskRole | Chose


class Seeker:
    """The machine. `step` takes an event and gives the effects; nothing else changes the state."""

    def __init__(self, config: SeekConfig, now: Instant) -> None:
        self._config = config
        self._up: set[int] = set()
        self._seeking_since = now
        self._ask_at: Instant | None = None
        self.chosen: int | None = None
        """Member that the client talks to; None: nobody."""
        self.epoch = 0
        """Highest epoch under which a member was heard to act: a hint."""

    @property
    def lines(self) -> frozenset[int]:
        """Members that are connected."""
        return frozenset(self._up)

    def deadline(self) -> Instant | None:
        """When `TimePassed` is due."""
        return self._ask_at

    def step(self, event: Event, now: Instant) -> list[Effect]:
        match event:
            case LineUp(member):
                self._up.add(member)
                return [*self._left(member, now), *self._ask(now)]
            case LineDown(member):
                self._up.discard(member)
                return self._left(member, now)
            case RoleHeard(member, role):
                return self._told(member, role, now)
            case TurnedAway(member) | FellSilent(member):
                return self._left(member, now)
            case TimePassed():
                return self._ask(now) if self._ask_at is not None and now >= self._ask_at else []
            case _:
                assert_never(event)

    def _told(self, member: int, role: RoleTold, now: Instant) -> list[Effect]:
        if not role.is_acting:
            return self._left(member, now)
        is_settled = self.chosen is not None
        if role.epoch < self.epoch and (is_settled or now - self._seeking_since < self._config.settle_ns):
            return []
        if self.chosen == member or (is_settled and role.epoch == self.epoch):
            self.epoch = role.epoch
            return []
        self.epoch = role.epoch
        self.chosen = member
        self._ask_at = Instant(now + self._config.watch_ns)
        return [Chose(member)]

    def _left(self, member: int, now: Instant) -> list[Effect]:
        """Seek anew if `member` was the chosen one."""
        if member != self.chosen:
            return []
        self.chosen = None
        self._seeking_since = now
        return [Chose(None), *self._ask(now)]

    def _ask(self, now: Instant) -> list[Effect]:
        """Ask every connected member except the chosen one."""
        others = sorted(self._up - {self.chosen})
        pause_ns = self._config.ask_ns if self.chosen is None else self._config.watch_ns
        self._ask_at = Instant(now + pause_ns) if self._up else None
        return [AskRole(member) for member in others]
