"""Repair of a member's log with the holder's frames, piece by piece, while it is out of the set.

    follower  damage known -> asks for what stands there -> puts it in place -> ... -> folds read anew -> whole
    holder    reads the frames from its own log and sends them

Spec: design/pair.md, rule 6; ADR-0112, ADR-0120.
"""

from collections.abc import Callable, Sequence
from typing import Final

from albireo.codec.pair_message import RangeSent
from albireo.log import Corrupted, FramesRefused, Pruned, ReadFailed, RepairFailed
from albireo.machine.pair.events import RepairLog, SendRange
from albireo.machine.pair.party import Party
from albireo.node.membership.membership import LogAndFolds
from albireo.runtime import ActorContext, Link

PIECE_BYTES: Final = 4 << 20
"""Bytes of one piece: smaller pieces would leave many small segments in place of a lost one (ADR-0112)."""


class PeerRepair:
    """Both sides of the repair; one per run of CORE."""

    def __init__(
        self, actor: ActorContext, core: LogAndFolds, own: Party, links: Sequence[Link], refuse: Callable[[str], None]
    ) -> None:
        """`refuse`: told why a range is not sent, or not put in place."""
        self._actor = actor
        self._core = core
        self._own = own
        self._links = links
        self._refuse = refuse

    def do(self, effect: SendRange | RepairLog) -> None:
        if isinstance(effect, SendRange):
            self._send(effect)
        else:
            assert isinstance(effect.payload, bytes | memoryview)
            self._repair(effect.payload)
            if not self._core.log.corrupt:
                self._fold_anew()

    def _send(self, ask: SendRange) -> None:
        """Send the range. What can't be read here either is not sent: the other member stays out of the set."""
        own, piece = self._own, b""
        try:
            piece = self._core.log.read(ask.after, PIECE_BYTES)
        except Pruned:
            pass  # The answer says that it is gone.
        except (Corrupted, ReadFailed, ValueError) as error:
            self._refuse(f"{type(error).__name__.lower()}: no repair from here")
            return
        message = RangeSent(
            **own.peer_head, to_run=ask.to_run, epoch=ask.epoch, session=ask.session, after=ask.after, is_gone=not piece
        )
        self._links[own.path].send(message, [piece] if piece else [])

    def _repair(self, piece: bytes | memoryview) -> None:
        try:
            first, last = self._core.log.repair(piece)
        except (FramesRefused, RepairFailed) as error:
            self._refuse(f"repair: {type(error).__name__.lower()}")
            self._actor.log.limited("repair_refused", reason=str(error))
            return
        self._actor.log.warning("log_repaired", first=first, last=last)

    def _fold_anew(self) -> None:
        """Have the folds read what they lack, now that nothing is damaged any more."""
        if self._own.is_complete:
            self._core.fold_anew()
        else:
            self._actor.fail("the log was repaired before a snapshot had its beginning: start anew")
