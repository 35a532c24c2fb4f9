"""Shortcuts that a world of whole nodes must be caught taking: the shells with one rule left out, and what finds it.

They test the world, as `sim/machines/mutations.py` tests the world of the machines alone (ADR-0094).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from albireo.codec.frame import Frame
from albireo.codec.pair_message import Accept, FollowAnswered
from albireo.codec.record import ProducerOpened
from albireo.log.log import Log
from albireo.machine.desk.pending import Pending
from albireo.machine.desk.role import Role
from albireo.machine.fold.producers import Producers
from albireo.machine.pair.following import Following
from albireo.machine.pair.holder import Holder
from albireo.machine.vote.voter import Effect, Event, Persist, Voter, VoterStore
from albireo.model.instant import Instant
from albireo.model.log_view import LogView
from albireo.node.membership.private_log import OneLetter, PrivateLog
from albireo.node.transfer.folds import FoldsTaken
from albireo.node.transfer.peer_repair import PeerRepair
from albireo.node.vote.store import KeptVote, VoterDisk
from albireo.sim.engine.stage import first_caught, taken
from albireo.sim.nodes.swarm import SCRUB_BYTES, SCRUB_OFTEN, NodeSwarm
from albireo.sim.nodes.world import NodeWorld

Shortcut = tuple[type, str, Callable[..., Any]]
"""Class, name of the method, and what stands in its place."""


def _durable_is_what_came(self: Following) -> int:
    return self.own.log.end.sequence


def _durable_is_what_was_appended(self: Log) -> LogView:
    view = _view(self)
    return msgspec.structs.replace(view, durable=view.end)


def _folds_backwards(self: Pending, frames: Sequence[Frame]) -> None:
    _followed(self, list(reversed(frames)))


def _begins_at_the_end(self: Holder, hello: Any) -> None:
    """Give a snapshot without the frames that the holder still has."""
    tell = self.own.tell

    def later(message: Any) -> None:
        if isinstance(message, FollowAnswered) and message.is_snapshot:
            message = msgspec.structs.replace(message, position=self.own.log.told.sequence)
        tell(message)

    self.own.tell = later  # type: ignore[method-assign]  # For this one answer.
    _answer(self, hello)
    self.own.tell = tell  # type: ignore[method-assign]


def _complete_at_once(self: FoldsTaken, now: int) -> bool:
    """Say complete without a snapshot on the own disk, from which a restart would go on."""
    is_there, self._position = self._position is not None, None
    return is_there


def _serves_before_it_has_folded(self: Role, folded_to: int) -> bool:
    return _begins(self, max(folded_to, self.first_sequence))


def _repairs_nothing(self: PeerRepair, piece: bytes | memoryview) -> None:
    """Forget the damage instead of repairing it."""
    self._core.log._stored._found = ()
    self._core.log._stored.reader.found.clear()


def _waits_for_nothing(self: PrivateLog, letters: Sequence[OneLetter], *told: Any) -> Any:
    """Store a batch and admit it at once, without waiting for the sync of its payload."""
    _hold(self, letters, *told)
    self._waiting.clear()
    return letters


def _nothing_is_over(self: Producers, producer_id: int) -> bool:
    """Take the batches of a life whose name another one has."""
    return False


def _one_number_for_all_lives(self: Producers, name: str, run: int, *opened: Any) -> ProducerOpened:
    """Let whoever has the name go on behind the last number."""
    known = self.present(name)
    if known is None:
        return _open(self, name, run, *opened)
    self._opening[name] = msgspec.structs.replace(known, run=run)
    return ProducerOpened(producer_id=known.producer_id, name=name, run=run)


def _as_it_stands(self: PrivateLog, frame: Frame) -> Frame:
    return frame


def _forgets(self: VoterDisk, store: VoterStore) -> None:
    """Keep in memory what came after the first record, so that a restart knows no promise."""
    if self.store is None:
        _save(self, store)
    else:
        self.mirrored.body = KeptVote(voter=self._owner[0], store=store)


def _answers_first(self: Voter, event: Event, now: Instant) -> list[Effect]:
    return sorted(_step(self, event, now), key=lambda effect: isinstance(effect, Persist))


def _votes_for_two(self: Voter, question: Accept, now: Instant) -> list[Effect]:
    """Take a holder's record without keeping others away for as long as its lease."""
    effects = _accept(self, question, now)
    self.lease_end = now
    return effects


_save, _step, _accept = VoterDisk.save, Voter.step, Voter._accept
_hold = PrivateLog.hold
_view, _followed, _answer = Log.view, Pending.followed, Holder._answer
_begins, _open = Role.begins, Producers.open

_KILLS: Final = NodeSwarm(faults=("kill", "power"), fault_every_ms=600.0, batch_every_ms=20.0, sync_ms=10.0)
_SLOW_FOLDS: Final = msgspec.structs.replace(
    _KILLS, bounds={"machine.desk.pending:FOLD_COST_MAX": 30}, batch_every_ms=5.0
)
_AWAY: Final = NodeSwarm(faults=("away", "kill_both"), fault_every_ms=900.0, batch_every_ms=20.0, segment_bytes=5_120)
_ROT: Final = NodeSwarm(
    faults=("rot_at_start", "rot_while_up"), fault_every_ms=400.0, segment_bytes=8_192, keep_s=600.0,
    scrub_bytes=SCRUB_BYTES, bounds=SCRUB_OFTEN,
)  # fmt: skip
_RIVALS: Final = NodeSwarm(
    faults=("rival", "pause_program", "kill", "break_connections"), fault_every_ms=400.0, batch_every_ms=10.0
)
_BELOW: Final = NodeSwarm(
    voters=1, below=1, faults=("cut_oneway", "cut_member"), fault_every_ms=300.0, batch_every_ms=20.0
)
_BELOW_FORGOTTEN: Final = msgspec.structs.replace(_BELOW, faults=("kill", "restart_voter"), fault_every_ms=250.0)
_BELOW_KILLED: Final = msgspec.structs.replace(_BELOW, faults=("cut_link", "kill_in_write", "kill"), sync_ms=10.0)
_PRIVATE: Final = msgspec.structs.replace(_KILLS, is_private=True)

SHORTCUTS: Final[Mapping[str, tuple[Shortcut, NodeSwarm]]] = {
    "commit before the follower has synced": ((Following, "_verified_durable", _durable_is_what_came), _KILLS),
    "commit before the own sync": ((Log, "view", _durable_is_what_was_appended), _KILLS),
    "a follower folds its frames in another order": ((Pending, "followed", _folds_backwards), _KILLS),
    "snapshot without the retained frames": ((Holder, "_answer", _begins_at_the_end), _AWAY),
    "in the set before a restart could go on": ((FoldsTaken, "is_completed", _complete_at_once), _AWAY),
    "serves before its folds are those of its log": ((Role, "begins", _serves_before_it_has_folded), _SLOW_FOLDS),
    "damage is forgotten instead of repaired": ((PeerRepair, "_repair", _repairs_nothing), _ROT),
    "the batches of a life that is over are taken": ((Producers, "is_over", _nothing_is_over), _RIVALS),
    "one number counts for all programs of a name": ((Producers, "open", _one_number_for_all_lives), _RIVALS),
    "a batch is taken before its payload is stored": ((PrivateLog, "hold", _waits_for_nothing), _PRIVATE),
    "the feed gives references where payloads are": ((PrivateLog, "whole", _as_it_stands), _PRIVATE),
    "a node below forgets its votes over a restart": ((VoterDisk, "save", _forgets), _BELOW_FORGOTTEN),
    "a node below answers before its vote is synced": ((Voter, "step", _answers_first), _BELOW_KILLED),
    "a node below votes for two at a time": ((Voter, "_accept", _votes_for_two), _BELOW),
}


def catch(name: str, seeds: range) -> tuple[int, str] | None:
    """Return the first seed that catches the shortcut, and what was seen; None if none of them does."""
    shortcut, swarm = SHORTCUTS[name]
    with taken(shortcut):
        return first_caught(lambda seed: NodeWorld(seed, swarm).play(), seeds)
