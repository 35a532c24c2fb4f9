"""Upgrade: the members get the next feature level one after the other, and the newer one dies before the other has it.

Both begin held back to the level before this one, as an operator holds them back who wants to be able to go back:

    each round     the passive member is started with this level, led to by a switchover, and killed: the member with
                   the level before takes over. The killed one comes back with the level before, and leads again;
                   the other is started anew too: a leader holds off ever longer whom it saw come and go
    the last one   besides, one member after the other is started with this level, with a switchover between; the log
                   is raised by itself; and whoever is started with the level before then is refused

The level of a log rises once, so only the last round can raise it.
"""

from typing import Final

from albireo.drill.fault.fault import Fault
from albireo.drill.ground import DrillError, Ground
from albireo.drill.pair import HEALTHY_S, MEMBERS, SWITCH_S, Pair, other_of
from albireo.model.feature import FEATURE_LEVEL, OLDEST_LEVEL

RAISED_S: Final = 10.0
REFUSED_S: Final = 60.0
BAD_CONFIGURATION: Final = 78
"""Exit code of a node that is told something impossible (sysexits.h)."""


class TwoLevels(Ground):
    """A ground on which a member can be held back."""

    @staticmethod
    def objection() -> str:
        return "" if OLDEST_LEVEL < FEATURE_LEVEL else "this version has one feature level, and none before it"


class Upgrade(Fault):
    """See the module."""

    def begin(self, pair: Pair) -> None:
        for name in MEMBERS:
            hold_back(pair, name)

    def strike(self, pair: Pair, active: str) -> None:
        newer = other_of(active)
        let_go(pair, newer)
        start_anew(pair, newer)
        check_levels(pair, {active: OLDEST_LEVEL, newer: FEATURE_LEVEL})
        lead_to(pair, newer)
        pair.groups[newer].kill()

    def heal(self, pair: Pair, active: str) -> None:
        newer = other_of(active)
        hold_back(pair, newer)
        pair.groups[newer].start()
        pair.wait_healthy()
        lead_to(pair, newer)
        start_anew(pair, active)

    def conclude(self, pair: Pair, active: str) -> str:
        newer = other_of(active)
        for name in MEMBERS:
            let_go(pair, name)
        start_anew(pair, newer)
        lead_to(pair, newer)
        check_levels(pair, {active: OLDEST_LEVEL, newer: FEATURE_LEVEL})
        start_anew(pair, active)
        pair.until("the log is raised", lambda: is_raised(pair), RAISED_S)
        refused(pair, active)
        return f"the log is at feature level {FEATURE_LEVEL}; a member held back to {OLDEST_LEVEL} is refused"


def hold_back(pair: Pair, name: str) -> None:
    """Let the member know only the level before from its next start on."""
    pair.groups[name].options = ("--feature-level", str(OLDEST_LEVEL))


def let_go(pair: Pair, name: str) -> None:
    """Let the member know this level from its next start on."""
    pair.groups[name].options = ()


def start_anew(pair: Pair, name: str) -> None:
    """Stop and start the member while the other leads; it is in the set when this returns."""
    if pair.groups[name].stop() != 0:
        raise DrillError(f"{name} did not stop in order\n{pair.tails()}")
    pair.groups[name].start()
    pair.wait_healthy()


def lead_to(pair: Pair, name: str) -> None:
    """Return when `name` leads and both are in the set. On a busy machine the lead may go back by itself."""

    def leads() -> bool:
        acting = pair.acting()
        if acting is None or not pair.is_healthy():
            return False
        if acting[0] != name:
            pair.ask(acting[0], "switchover", timeout_s=SWITCH_S)
        return acting[0] == name

    pair.until(f"{name} leads, and both are in the set", leads, HEALTHY_S)


def levels(pair: Pair) -> dict[str, tuple[int, int]]:
    """Levels by member: the one that it knows, and that of its log."""
    views = {name: pair.view(name) for name in MEMBERS}
    return {name: (one.feature_level, one.log_level) for name, one in views.items() if one is not None}


def check_levels(pair: Pair, known: dict[str, int]) -> None:
    """
    Raises:
        DrillError: somebody knows something else, or the log was raised although a member is held back.
    """
    wanted = {name: (level, OLDEST_LEVEL) for name, level in known.items()}
    pair.until(f"the levels known and of the log are {wanted}", lambda: levels(pair) == wanted, RAISED_S)


def is_raised(pair: Pair) -> bool:
    return levels(pair) == dict.fromkeys(MEMBERS, (FEATURE_LEVEL, FEATURE_LEVEL))


def refused(pair: Pair, passive: str) -> None:
    """Held back below its log it does not start, and says so; with this level it does."""
    group = pair.groups[passive]
    group.stop()
    hold_back(pair, passive)
    group.start()
    pair.until(f"{passive} refuses to start", lambda: not group.is_running, REFUSED_S)
    code = group.stop()
    if code != BAD_CONFIGURATION:
        raise DrillError(f"{passive}, held back below its log, ended with {code}\n{pair.tails()}")
    let_go(pair, passive)
    group.start()
    pair.wait_healthy()
