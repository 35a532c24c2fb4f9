"""CORE: the actor around log, folds and feeds; the only actor that appends.

A thin shell: it opens the log, rebuilds the folds, and then only carries out what the root machine says. Every wake-up
is told to that machine: what one drain brought, what one sync made durable, or the deadline that came. Its membership
says if this node leads, and what is committed: alone (alone.py) or as a member of a pair (node/member/member.py).

Spec: design/log-and-feed.md, The loop of CORE.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final

import msgspec

from albireo.codec.frame import Frame, frames
from albireo.codec.message import AnyMessage, Ask, Carry, FeedHello, HistoryTold, WriteOrder
from albireo.codec.principal import NEIGHBOUR_WORDS
from albireo.codec.register_block import VoterLost, VoterOffered, VoterRead, VoterWritten
from albireo.log import (
    Corrupted,
    FileSystem,
    OpenRefused,
    OsFileSystem,
    StoreIdentity,
    WrongStore,
)
from albireo.log.log import Log
from albireo.log.write.commit import LogFailure
from albireo.machine.carry.node_tree import MIRRORS
from albireo.machine.fold.folds import Folds
from albireo.machine.kernel.events import (
    AdmissionChanged,
    Durable,
    Event,
    FramesAppended,
    FramesFollowed,
    LettersDrained,
    PeerLost,
    Restored,
    Stopping,
)
from albireo.machine.kernel.turn import Moment, Send, Turn
from albireo.machine.root.root import Root
from albireo.model.instant import MS, Instant, TimePassed, WallTime, soonest
from albireo.model.position import Position
from albireo.node.core.alone import Alone
from albireo.node.core.arguments import CoreArguments, root_config
from albireo.node.core.feeding import Feeding
from albireo.node.core.folding import Folding
from albireo.node.core.housekeeping import Housekeeping
from albireo.node.core.level_check import check_level
from albireo.node.core.part_questions import HANDED_ON, HISTORY, LIMITS, PartQuestions
from albireo.node.core.peer_links import PeerLinks
from albireo.node.core.stored_relay import StoredRelay
from albireo.node.core.uplinks import NoUplinks, Uplinks, uplinks_of
from albireo.node.member.member import PairMembership
from albireo.node.membership.membership import Membership
from albireo.node.membership.private_log import OneLetter, PrivateLog, append_all, opened, whole
from albireo.runtime import ActorContext, Letter, Link, TurnLimits
from albireo.runtime.errors import ConfigurationRefused, StoreRefused
from albireo.runtime.link.patience import bounds_of

FOR_MEMBERSHIP: Final = (Ask, VoterOffered, VoterLost, VoterRead, VoterWritten, Carry, HistoryTold)
"""Messages of the local link that the membership may want; all others are for the root machine."""
TURN_LIMITS: Final = TurnLimits(letters_max=128, bytes_max=512 << 10)
"""Most that one turn takes: some 20 batches of 1000 samples, 1 ms of checking and appending."""

OWN_ASKERS: Final = (b"history#", b"topics#", b"face.")
"""Begins of the identities of the node's own actors that ask CORE: nobody is present by them."""
NOWHERE: Final[Mapping[bytes, str]] = {}


def create(arguments: Mapping[str, object]) -> "Core":
    """Factory for the runtime."""
    return Core(msgspec.convert(arguments, CoreArguments))


LACKING: Final = "restore the snapshots or the data directory from a copy, or go on: items come back under other ids"


class Core:
    """The behaviour of the actor `core`."""

    name = "core"
    log_type: ClassVar[type[Log]] = Log
    private_log_type: ClassVar[type[Log]] = Log
    """Classes of the two logs; a simulation puts others without threads in their place."""

    def __init__(
        self,
        arguments: CoreArguments,
        files: FileSystem | None = None,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """`files`, `entropy`: the real ones, unless a simulation has others."""
        self.files = files or OsFileSystem()
        self.entropy = entropy
        self._arguments = arguments
        self.alarms = arguments.alarms
        self._actor: ActorContext
        self._link: Link
        self._membership: Membership
        self._house: Housekeeping
        self._feeding: Feeding
        self.log: Log
        self.private: PrivateLog | None = None  # Samples that are not replicated.
        self.root: Root
        self.is_complete = True
        self.lacks_to = 0
        """Last sequence whose effect on the folds is lost: of a lone node, all snapshots of it unreadable."""
        self._peers: PeerLinks
        self._uplinks: Uplinks | NoUplinks
        self._asking: dict[str, PartQuestions]
        """Questions handed on to other actors, by their names."""
        self._stored: StoredRelay
        self._is_durable_posted = False
        self._is_disk_awaited = True
        self._durable_told = Position()
        self._folding: Folding
        self._admission = ""
        self._lost: list[PeerLost] = []
        """Peers to which a send of this turn failed."""
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._is_closed = False

    async def start(self, actor: ActorContext) -> None:
        self._actor = actor
        actor.turn_limits, actor.tcp.bounds = TURN_LIMITS, bounds_of(self._arguments.limits)
        arguments, pair = self._arguments, self._arguments.pair
        identity = StoreIdentity(cluster=arguments.cluster, node=arguments.node)
        if pair is not None:
            identity = StoreIdentity(cluster=arguments.cluster, node=pair.place, log_id=pair.log_id)
        try:
            self.log, report = self.log_type.open(actor.data / "log", identity, arguments.log, self.files, self.entropy)
            actor.at_end(self._release)
            place = (actor, arguments.cluster, pair, arguments.log, self.files, self.entropy)
            self.private = opened(self.private_log_type, self.log, *place)
        except WrongStore as error:
            raise ConfigurationRefused(str(error)) from error
        except OpenRefused as error:
            raise StoreRefused(str(error), may_pass=error.may_pass) from error
        actor.log.info("log_opened", **msgspec.to_builtins(report))
        if pair is None:
            self._membership = Alone(self, actor, arguments.node, arguments.door)
        else:
            self._membership = PairMembership(self, actor, pair)
        folds, kept = self._rebuild()
        check_level(folds, self._uncommitted(), self.feature_level)
        config = root_config(arguments, self.log.log_id, self.entropy, self.lacks_to)
        self.root = Root(config, folds, self.log.committed, self._moment(), has_folds=self.is_complete)
        if reason := self.root.tree.take_kept(kept):
            actor.log.warning("mirrors_unusable", reason=reason)
        settings = (self.root, arguments.log, arguments.retention)
        self._house = Housekeeping(actor, self.files, self.log, self.private, *settings, self.tell, self._membership)
        self._open_links()
        self.log.start(self._sync_done, self._log_failed)
        if self.private is not None:
            self.private.start(actor.call, self._released, self._log_failed)
        self._folding, self._feeding = Folding(actor, self, self._end_turn), Feeding(actor, self, self._feed, self._arm)
        self.tell(FramesFollowed(self._uncommitted()))
        self._membership.begin()
        self._membership.door.let_in(self.root.config.child_places)
        self._end_turn()
        if pair is None:
            await self._folded(self.log.end.sequence)

    def _open_links(self) -> None:
        actor = self._actor
        self._link = actor.bind("core")
        self._peers = PeerLinks()
        self._uplinks = uplinks_of(actor, self._arguments.uplink, self.log.log_id, lambda: self.root)
        self._asking = {name: PartQuestions(actor.connect(name, LIMITS), self._peers) for name in HANDED_ON}
        self._stored = StoredRelay(self._asking[HISTORY].link, self._peers, self._uplinks, lambda: self.root)

    @property
    def feature_level(self) -> int:
        """Highest feature level that this node knows, or is held back to."""
        return self._arguments.feature_level

    def _logs(self) -> list[Log]:
        return [self.log] if self.private is None else [self.log, self.private.log]

    def _uncommitted(self) -> list[Frame]:
        """The frames of the log above the commit position."""
        found: list[Frame] = []
        after = self.log.committed.sequence
        while after < self.log.end.sequence:
            found += [whole(self.private, Frame(*one)) for one in frames(self.log.read_appended(after, 1 << 20))]
            after = found[-1].header.last_sequence
        return found

    def _rebuild(self) -> tuple[Folds, bytes]:
        """Rebuild the folds: newest usable snapshot, then the committed frames above it. Returns with them what the
        snapshot has of other nodes' states."""
        folds, replayed_from, kept = Folds(self.alarms), 0, b""
        for snapshot in self.log.load_snapshots():
            try:
                folds = Folds.restore(snapshot.sections, snapshot.log_time // MS, self.alarms)
            except ValueError as error:
                self._actor.log.warning("snapshot_unusable", position=str(snapshot.position), reason=str(error))
                continue
            replayed_from, kept = snapshot.position.sequence, snapshot.sections.get(MIRRORS, b"")
            break
        if self.log.trouble:
            self._actor.log.error("snapshots_unusable", reason=self.log.trouble)
        begin = self.log.begin_sequence
        self.is_complete = replayed_from + 1 >= begin
        if not self.is_complete and self._arguments.pair is not None:
            self._actor.log.error("folds_missing", begin=begin, remedy="the other member gives them")
            return folds, kept
        if not self.is_complete:  # Nobody else has them: the log itself is better than no node.
            self.lacks_to, self.is_complete, replayed_from = begin - 1, True, begin - 1
            self._actor.log.error("folds_missing", begin=begin, remedy=LACKING)
        after = replayed_from
        end = self.log.committed.sequence
        while after < end:
            try:
                folds.replay_all(whole(self.private, frame) for frame in self.log.replay(after, end))
                after = end
            except Corrupted as damage:
                self._actor.log.error("log_corrupt", reason=str(damage))
                after = damage.last_sequence
        if self.lacks_to:
            folds.dim.leave_ids_out()
        self._actor.log.info("folds_rebuilt", snapshot=replayed_from, end=self.log.committed.sequence)
        return folds, kept

    def fold_anew(self) -> None:
        """Rebuild the folds from the log, not all of which could be read before."""
        folds, _ = self._rebuild()
        self.tell(Restored(folds, self.log.committed, self.is_complete))
        self.tell(FramesFollowed(self._uncommitted()))

    async def stop(self) -> None:
        """Stop cleanly: out of the pair, a last record, a snapshot, the store header marked clean."""
        await self._membership.stop()
        self.tell(Stopping())
        self._end_turn()
        if not self.root.admission.closed_because:  # A full disk may never allow it; closing writes what finds room.
            await self._folded(self.log.end.sequence)
        await self._house.stop()
        self._actor.arm(None)
        self._is_closed = True
        for log in self._logs():
            log.close(clean=True, shutdown_id=self._membership.shutdown_id if log is self.log else "")
        # The links last: a peer that reads its last answer only after they are closed has none (libzmq drops it).
        self._membership.close()
        self._uplinks.close()
        for one in self._asking.values():
            one.link.close()
        self._link.close(self._link.linger_ms)

    def _release(self) -> None:
        """Release the logs after a crash: in thread placement the process lives on, and so would their locks."""
        if not self._is_closed:
            for log in self._logs():
                with contextlib.suppress(OSError):
                    log.close(clean=False)

    async def _folded(self, sequence: int) -> None:
        if self.root.folded_to.sequence < sequence:
            done: asyncio.Future[None] = self._actor.loop.create_future()
            self._waiters.append((sequence, done))
            await done

    def drained(self, letters: Sequence[Letter]) -> None:
        if (
            self._is_disk_awaited
        ):  # Else nothing follows from a sync before the letters, and they are what it waits for.
            self._look_at_disk()
        own: list[OneLetter] = []
        addresses: dict[bytes, str] = {}
        door = self._membership.door.link
        for one in letters:
            is_local = one.link is self._link
            if self._stored.hears(one, is_local=is_local):
                continue
            if (asking := self._asking.get(one.link.name)) is not None and one.link is asking.link:
                asking.answered(one)
                continue
            if self._house.hears(one, is_local=is_local):
                continue
            is_over = (
                isinstance(one.message, Ask) and self.root.sessions.refusal_of(self._peers.sender_of(one)) is not None
            )
            if isinstance(one.message, Ask) and one.message.of and not is_over and (is_local or one.link is door):
                asking = self._asking.get(one.message.of, self._asking[HISTORY])
                asking.asked(one, one.message, self.root.access, self._moment())
                continue
            is_outside = not is_local and one.link not in self._uplinks
            is_for_membership = is_outside or isinstance(one.message, FOR_MEMBERSHIP)
            if is_for_membership and not is_over and self._membership.hears(one):
                continue
            is_above = one.link in self._uplinks and type(one.message) in NEIGHBOUR_WORDS
            sender = self._uplinks.sender_of(one.link) if is_above else self._peers.sender_of(one)
            if isinstance(one.message, Ask | FeedHello) and not (one.link in self._uplinks or _is_own(one, is_local)):
                addresses[sender] = one.address
            own.append((sender, one.message, one.raw, one.principal))
        if self.private is not None:
            own = self.private.hold(own, self._actor.wall_ns(), self._is_admitted)
        if own:
            self._tell_letters(own, addresses)
        self._end_turn()

    def _is_admitted(self, letter: OneLetter) -> bool:
        """True: neither the log nor the sender's role keeps batches of this letter out."""
        _, message, _, principal = letter
        return not self.root.admission.closed_because and not self.root.access.lacks(principal, message)

    def _tell_letters(self, letters: Sequence[OneLetter], addresses: Mapping[bytes, str] = NOWHERE) -> None:
        is_described = any(isinstance(one, Ask) and one.what == "status" for _, one, _, _ in letters)
        if not is_described:
            self.tell(LettersDrained(letters, addresses=addresses))
            return
        door = self._membership.door.describe(self._asking[HISTORY].describe(), self._actor.key_trouble())
        self.tell(LettersDrained(letters, self._membership.describe(), door, addresses))

    def _released(self, letters: Sequence[OneLetter]) -> None:
        """Take letters whose private payloads are on the disk by now."""
        self._tell_letters(letters)
        self._end_turn()

    def ticked(self, now: Instant) -> None:
        self._look_at_disk()
        self._folding.is_due = True  # The disk may hang.
        self._membership.ticked(now)
        self._membership.door.let_in(self.root.config.child_places)
        for one in self._asking.values():
            one.ticked(now)
        self._house.ticked(now)
        self._uplinks.ticked(now)
        self.tell(TimePassed())
        self._end_turn()

    def _sync_done(self, position: Position) -> None:
        """Post a look at the durable position, one at a time; for the sync thread. While nothing would follow from the
        position none is posted: the turn that ends such a time looks itself if more is durable (`_end_turn`)."""
        del position  # Void by the time of the call if the log was cut meanwhile.
        if self._is_disk_awaited and not self._is_durable_posted:
            self._is_durable_posted = True
            self._actor.call(self._durable)

    def _durable(self) -> None:
        self._is_durable_posted = False
        self._end_turn()

    def _look_at_disk(self) -> None:
        durable = self.log.durable
        if durable == self._durable_told:
            return
        self._durable_told = durable
        self._folding.is_due = True
        self._membership.synced(durable)
        if self.root.waits_for_disk:
            self.tell(Durable())

    def commit(self, position: Position) -> None:
        """Commit up to `position`, and fold, if this is the time to."""
        self.log.commit(position)
        self._folding.committed()

    def _log_failed(self, failure: LogFailure) -> None:
        """Stop acknowledging, and end: what is appended may not be durable. For the sync thread."""
        self._actor.call(self._actor.fail, f"log: {failure}")

    def _moment(self) -> Moment:
        return Moment(self._actor.now(), WallTime(self._actor.wall_ns()))

    def tell(self, event: Event) -> None:
        """Have the root machine take one step, and do what it wants done."""
        moment = self._moment()
        self._perform(self.root.step(event, self.log.view(), moment), moment)

    def _perform(self, turn: Turn, moment: Moment) -> None:
        """Append, then send; see machine.kernel.turn for why that order is enough."""
        appended: list[Frame] = []
        if turn.drafts:
            appended = append_all(self.log, self.private, turn.drafts, turn.elapsed_ms, moment.wall)
            self.root.step(FramesAppended(appended), self.log.view(), moment)
        for send in turn.sends:
            self._send(send)
        for note in turn.notes:
            getattr(self._actor.log, note.level)(note.event, **note.fields)
        if appended:
            self._membership.appended()
        if turn.pulls:
            self._feeding.give(turn.pulls, moment.now)
        lost, self._lost = self._lost, []
        for peer in lost:  # Not before all of this turn is said: what follows from it is a turn of its own.
            self.tell(peer)

    def save_snapshot(self) -> None:
        """Have a snapshot saved soon."""
        self._house.save_snapshot()

    def wake(self) -> None:
        """Look at the deadlines again: something has changed outside a wake-up."""
        self._actor.call(self._end_turn)

    def say(self, to: bytes, message: AnyMessage, raw: Sequence[bytes | memoryview] = ()) -> bool:
        """Send to an actor of this node; False: that actor is gone."""
        return self._link.send(message, raw, to=to)

    def _feed(self, to: bytes, message: AnyMessage, raw: bytes) -> bool:
        return self._peers.send(to, message, [raw])

    def _send(self, send: Send) -> None:
        if self._uplinks.say(send.to, send.message):
            return
        if not self._peers.send(send.to, send.message, send.raw):
            unsent = send.message.command_id if isinstance(send.message, WriteOrder) else ""
            self._lost.append(PeerLost(send.to, unsent))

    def _end_turn(self) -> None:
        """End a wake-up: look at disk and admission, fold, serve followers, arm the next deadline."""
        self._look_at_disk()
        admission = self.log.admission() or ("" if self.private is None else self.private.log.admission())
        if admission != self._admission:
            self._admission = admission
            self.tell(AdmissionChanged(admission))
        self._folding.look()
        self._feeding.look()
        while self._waiters and self._waiters[0][0] <= self.root.folded_to.sequence:
            self._waiters.pop(0)[1].set_result(None)
        self._is_disk_awaited = self.root.waits_for_disk or self._membership.awaits_disk()
        if self._is_disk_awaited and self.log.durable != self._durable_told:
            self._sync_done(self.log.durable)
        self._arm()

    def _arm(self) -> None:
        owners = (self.root, self._house, self._membership, self._folding, self._feeding, self._uplinks)
        deadlines = [one.deadline() for one in (*owners, *self._asking.values())]
        self._actor.arm(soonest(*deadlines))


def _is_own(letter: Letter, is_local: bool) -> bool:
    """True: an actor of this node says it, and no person or program."""
    return is_local and letter.sender.startswith(OWN_ASKERS)
