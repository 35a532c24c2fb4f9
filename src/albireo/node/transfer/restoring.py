"""Restoring: what makes the log of a member whole and complete again, its own or the other member's; and news of it.

Spec: design/pair.md, rule 6; ADR-0119, ADR-0120.
"""

from collections.abc import Callable, Sequence

from albireo.codec.pair_message import FollowAnswered
from albireo.machine.feed.leader import BEHIND_RECORDS
from albireo.machine.pair.events import (
    CaseTold,
    Completed,
    Event,
    LevelFolded,
    RepairLog,
    SendFolds,
    SendRange,
    StartOver,
    State,
    TakeFolds,
)
from albireo.machine.pair.member import Member
from albireo.machine.pair.party import Party
from albireo.model.instant import Instant
from albireo.node.membership.membership import LogAndFolds
from albireo.node.transfer.folds import FoldsGiven, FoldsTaken
from albireo.node.transfer.peer_repair import PeerRepair
from albireo.runtime import ActorContext, Link


class Restoring:
    """Folds given and taken, and repair, both sides; one per run of CORE."""

    def __init__(
        self, actor: ActorContext, core: LogAndFolds, own: Party, links: Sequence[Link], refuse: Callable[[str], None]
    ) -> None:
        self._actor = actor
        self._core = core
        self._own = own
        self._given = FoldsGiven(actor, core, own, links)
        self._taken = FoldsTaken(actor, core)
        self._repair = PeerRepair(actor, core, own, links, refuse)

    def do(self, effect: StartOver | TakeFolds | SendFolds | SendRange | RepairLog) -> None:
        match effect:
            case StartOver() | TakeFolds():
                self._taken.do(effect)
            case SendFolds():
                self._given.asked(effect)
            case SendRange() | RepairLog():
                self._repair.do(effect)

    def lacks_room(self, answer: FollowAnswered, told: Callable[[CaseTold, int], object]) -> bool:
        """True: this disk lacks room to keep what is to be cut. A cut that it refuses half-way would end this run.

        Args:
            told: takes the case, and the wall time.
        """
        log = self._core.log
        is_cut = not answer.is_snapshot and answer.position < log.end.sequence
        lacked = log.room_lacked_by_cut(answer.position) if is_cut else 0
        if lacked:
            self._actor.log.limited("cut_waits_for_room", "follow", bytes=lacked, remedy="make room on this disk")
        told(CaseTold("no_room", lacked > 0, f"{lacked} bytes more"), self._actor.wall_ns())
        return lacked > 0

    def is_far_behind(self, member: Member) -> bool:
        """True: much is committed that is missing here, and there is room for it: a full disk waits for the history."""
        last, log = member.peer.last, self._core.log
        missing = 0 if last is None else last.committed.sequence - log.end.sequence
        return member.state is State.CATCHING_UP and missing >= BEHIND_RECORDS and not log.admission()

    def given(self) -> None:
        """Give no more folds: the follower goes on without, or nobody is led any more."""
        self._given.end()

    def news(self, now: Instant, told: Callable[[CaseTold, int], object]) -> list[Event]:
        """Events for the member machine: the folds have another level, or a snapshot has the folds that were taken.

        Args:
            told: takes the case of a disk that takes no more, and the wall time.
        """
        refused = self._core.log.admission()
        told(CaseTold("disk_refuses", bool(refused), refused), self._actor.wall_ns())
        level = self._core.root.folds.feature_level
        raised = [] if level == self._own.log_level else [self._raised(level)]
        return [*raised, *([Completed(True)] if self._taken.is_completed(now) else [])]

    def _raised(self, level: int) -> LevelFolded:
        """Event of the new level; fail if it is above what this member knows, which would not fold all records."""
        known = self._own.feature_level
        self._actor.log.info("feature_level", log=level, known=known)
        if level > known:
            self._actor.fail(f"the log is raised to feature level {level}, this member knows {known}")
        return LevelFolded(level)
