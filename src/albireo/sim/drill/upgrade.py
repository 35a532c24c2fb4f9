"""Upgrade: the members get the next feature level one after the other, and the newer one dies before the other has it.

Both begin held back to the level before this one, as an operator holds them back who wants to be able to go back:

    each round     the passive member is started with this level, led to by a switchover, and killed: the member with
                   the level before takes over. What was killed comes back with the level before: it went back
    the last one   besides, one member after the other is started with this level, with a switchover between; the log
                   is raised by itself; and whoever is started with the level before then is refused

The level of a log rises once, so only the last round can raise it.
"""

from typing import Final

from albireo.model.feature import FEATURE_LEVEL, OLDEST_LEVEL
from albireo.sim.drill.fault import Fault
from albireo.sim.drill.ground import DrillError
from albireo.sim.drill.pair import MEMBERS, Pair, other_of

RAISED_S: Final = 10.0
REFUSED_S: Final = 60.0
BAD_CONFIGURATION: Final = 78
"""Exit code of a node that is told something impossible (sysexits.h)."""


class Upgrade(Fault):
    """See the module."""

    def begin(self, pair: Pair) -> None:
        for name in MEMBERS:
            hold_back(pair, name)

    def strike(self, pair: Pair, active: str) -> None:
        newer = other_of(active)
        started_anew(pair, newer)
        check_levels(pair, {active: OLDEST_LEVEL, newer: FEATURE_LEVEL})
        hand_over(pair, active)
        check_leads(pair, newer)
        pair.groups[newer].kill()

    def heal(self, pair: Pair, active: str) -> None:
        newer = other_of(active)
        hold_back(pair, newer)
        pair.groups[newer].start()

    def conclude(self, pair: Pair, active: str) -> str:
        newer = other_of(active)
        started_anew(pair, newer)
        hand_over(pair, active)
        check_levels(pair, {active: OLDEST_LEVEL, newer: FEATURE_LEVEL})
        started_anew(pair, active)
        pair.until("the log is raised", lambda: is_raised(pair), RAISED_S)
        refused(pair, active)
        return f"the log is at feature level {FEATURE_LEVEL}; a member held back to {OLDEST_LEVEL} is refused"


def hold_back(pair: Pair, name: str) -> None:
    """At its next start it knows the level before."""
    pair.groups[name].options = ("--feature-level", str(OLDEST_LEVEL))


def started_anew(pair: Pair, name: str) -> None:
    """Stopped in order and started with this level, while the other one leads; in the set when this returns."""
    if pair.groups[name].stop() != 0:
        raise DrillError(f"{name} did not stop in order\n{pair.tails()}")
    pair.groups[name].options = ()
    pair.groups[name].start()
    pair.wait_healthy()


def hand_over(pair: Pair, active: str) -> None:
    """The other one leads, and both are in the set, when this returns."""
    pair.hand_over(active)
    pair.wait_healthy()


def check_leads(pair: Pair, name: str) -> None:
    acting = pair.acting()
    if acting is None or acting[0] != name:
        raise DrillError(f"{name} does not lead\n{pair.tails()}")


def levels(pair: Pair) -> dict[str, tuple[int, int]]:
    """By member: what it knows, and the level of its log."""
    views = {name: pair.view(name) for name in MEMBERS}
    shown = {name: view.raw["pair"] for name, view in views.items() if view is not None}
    return {name: (one["feature_level"], one["log_level"]) for name, one in shown.items()}


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
    group.options = ()
    group.start()
    pair.wait_healthy()
