"""Seats: one voter machine and one store for each pair that asks, whatever process has them.

    member --Read, Prepare, Accept, Release, Install--> voter machine --Persist, Answer--> disk, then member

Effects are carried out in order, so an answer leaves once the promises that it tells of are on the disk (ADR-0103).
Renewals change nothing that must be kept: they sync nothing, but the floor is written behind them, at most once per
`floor_sync_ns`.

A disk that refuses a write ends the process, without an answer: the answer would be a promise that nobody keeps.

Not decided here: which member is a candidate (the members), what is granted (the voter machine), how questions come
(witness.py: at an endpoint; node_voter.py: on links that it dialled).
Spec: design/pair.md, The voter protocol, exactly.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from albireo.codec.message import Answer, Ask
from albireo.codec.pair_message import Accept, Question, Read, Record, Voted
from albireo.log import FileSystem, WrongStore
from albireo.machine.vote import Voter
from albireo.machine.vote.paths import REFUSALS_NEEDED
from albireo.machine.vote.voter import HolderGone, Persist, SendVote, VoteAsked, VoterRefusal
from albireo.model.instant import MS, SECOND, Instant, soonest
from albireo.model.principal import UNKEYED, kind_of
from albireo.model.refusal import unknown_question
from albireo.node.vote.holder_watch import HolderWatch
from albireo.node.vote.store import VoterDisk
from albireo.runtime import ActorContext, ConfigurationRefused, Letter, LinkLimits
from albireo.runtime.link.keys import Keys

LIMITS: Final = LinkLimits(send_messages_max=1000, receive_messages_max=1000, message_bytes_max=64 * 1024)
"""Limits of a voter's links; a question takes some 300 bytes, an answer 500."""
FLOOR_SYNC_NS: Final = 5 * SECOND
"""Longest time for which a floor is in memory only: after a power loss of all an old disk could hide as much."""
WATCH_LINKS_MAX: Final = 64
"""Most links by which members are watched; each takes three sockets. Pairs beyond that wait for leases to run out."""


class AskingMember(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One member of a pair; its index is its place in the tuple."""

    place: str
    """Name of its key: `root[primary]`."""
    endpoints: tuple[str, ...]
    """Endpoints of its process to which the voter connects: a witness to those for the other member, a node below to
    the one for clients."""


class AskingPair(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One pair that asks this voter."""

    node: str
    cluster: str
    """Identity of the pair: cluster of the topology and node."""
    voters: tuple[str, ...]
    """Voters as the topology lists them; the record holds those that the members agreed on."""
    members: tuple[AskingMember, ...]
    drift: float


class Seat:
    """A pair's voter and its disk. For the actor's thread."""

    def __init__(self, pair: AskingPair, voter: Voter, disk: VoterDisk) -> None:
        self.pair = pair
        self.voter = voter
        self.disk = disk
        self.watches: tuple[HolderWatch, ...] = ()
        """Watches of the members, in their order; empty: beyond WATCH_LINKS_MAX."""
        self.asked: Counter[str] = Counter()
        """Number of questions, by kind."""
        self.floor_due: Instant | None = None
        """When the floor is written although nothing else is; None: no floor waits."""

    def may_ask(self, question: Question, principal: str) -> bool:
        """True: `principal` may ask: a member speaks for itself only. Where there are no keys everybody may."""
        if kind_of(principal) in UNKEYED or isinstance(question, Read):
            return True
        members = self.pair.members
        return 0 <= question.member < len(members) and members[question.member].place == principal

    def watch(self, watches: tuple[HolderWatch, ...], on_due: Callable[[], object]) -> None:
        """Let these watches tell when the holder's process is gone."""
        self.watches = watches
        for member, watch in enumerate(watches):
            watch.run_of = partial(self._run_of, member)
            watch.on_gone = lambda run, now: self.voter.step(HolderGone(run), now)
            watch.on_due = on_due

    def heard(self, question: Accept) -> None:
        """Take a renewal: a sign of life of the holder, unless it is late."""
        store = self.voter.store
        if store is not None and question.run == store.record.run and store.record.holder < len(self.watches):
            self.watches[store.record.holder].heard()

    def _run_of(self, member: int) -> int:
        store = self.voter.store
        return store.record.run if store is not None and store.record.holder == member else 0

    def persist(self, effect: Persist) -> None:
        self.disk.save(effect.store)
        self.floor_due = None

    def sync_floor(self) -> None:
        store = self.voter.store
        assert store is not None, "a floor comes with an ACCEPT, which an empty voter refuses"
        self.persist(Persist(msgspec.structs.replace(store, floor=self.voter.floor)))

    def deadline(self) -> Instant | None:
        return soonest(self.floor_due, *(watch.deadline() for watch in self.watches))

    @property
    def has_floor_to_sync(self) -> bool:
        return self.voter.floor > self.disk.floor

    @property
    def lists_differ(self) -> bool:
        """True: the topology lists other voters than the members agreed on."""
        store = self.voter.store
        return store is not None and store.record.voters != self.pair.voters

    def status(self, now: Instant) -> dict[str, object]:
        """State of this seat as `albireo status` shows it; times in ms."""
        voter, store, mirrored = self.voter, self.voter.store, self.disk.mirrored
        left = max(0, voter.lease_end - now, voter.starts_until - now) if store else 0
        return {
            "node": self.pair.node,
            "cluster": self.pair.cluster,
            "state": voter.state(now).value,
            "promised": store.promised if store else None,
            "promised_run": store.promised_run if store else None,
            "record": _record(store.record) if store else None,
            "generation": store.generation if store else None,
            "lease_left_ms": left // MS,
            "is_holder_gone": voter.is_holder_gone,
            "members": [watch.status() for watch in self.watches],
            "floor": _position(voter.floor),
            "floor_durable": _position(self.disk.floor),
            "asked": dict(self.asked),
            "refused": {refusal.value: count for refusal, count in voter.refusals.items()},
            "lists_differ": self.lists_differ,
            "store": {
                "saves": mirrored.saves,
                "generation": mirrored.generation,
                "repaired_copies": mirrored.repaired_copies,
                "is_damaged": mirrored.is_damaged,
            },
        }


class VoterSeats:
    """The seats of one process, by the identity of their pair. For the actor's thread."""

    def __init__(self, actor: ActorContext, voter: str, floor_sync_ns: int, arm: Callable[[], object]) -> None:
        """
        Args:
            voter: its name in the voter lists: `witness:w1`, `node:root/north`.
            arm: called when `deadline` may have changed.
        """
        self.by_cluster: dict[str, Seat] = {}
        self._actor = actor
        self._voter = voter
        self._floor_sync_ns = floor_sync_ns
        self._arm = arm
        self._stray: Counter[str] = Counter()

    def open(self, pairs: tuple[AskingPair, ...], files: FileSystem) -> None:
        """Read the stores of all pairs.

        Raises:
            ConfigurationRefused: one of them is another voter's, another pair's, or a newer version's.
        """
        for pair in pairs:
            self.by_cluster[pair.cluster] = self._seat(pair, files)

    def watch(self, keys: Keys | None) -> None:
        """Watch the members of each pair. Raises what `HolderWatch` does."""
        links_left = WATCH_LINKS_MAX
        for seat in self.by_cluster.values():
            links_left -= sum(len(member.endpoints) for member in seat.pair.members)
            if links_left < 0:
                self._actor.log.warning("holders_not_watched", node=seat.pair.node, links_max=WATCH_LINKS_MAX)
                continue
            members = seat.pair.members
            watches = (HolderWatch(self._actor, one.place, one.endpoints, keys, REFUSALS_NEEDED) for one in members)
            seat.watch(tuple(watches), self._arm)

    def asked(self, question: Question, letter: Letter) -> None:
        """Answer a question, unless it is none of that sender's."""
        seat = self.by_cluster.get(question.cluster)
        if seat is None:
            self._stray[VoterRefusal.FOREIGN_CLUSTER.value] += 1
            told = {"cluster": question.cluster, "member": question.member, "peer": letter.principal}
            self._actor.log.limited("voter_asked_by_stranger", letter.principal, **told)
            letter.link.send(_stranger(self._voter, question), to=letter.sender)
            return
        if not seat.may_ask(question, letter.principal):
            self._stray["foreign_key"] += 1
            told = {"node": seat.pair.node, "member": question.member, "peer": letter.principal}
            self._actor.log.limited("voter_asked_with_foreign_key", letter.principal, **told)
            return
        kind = _kind(question)
        seat.asked[kind] += 1
        for effect in seat.voter.step(VoteAsked(question), self._actor.now()):
            match effect:
                case Persist():
                    seat.persist(effect)
                    self._tell(seat, kind)
                case SendVote(message):
                    letter.link.send(message, to=letter.sender)
                    self._tell_refusal(seat, message)
        if isinstance(question, Accept):
            seat.heard(question)
        if seat.has_floor_to_sync and seat.floor_due is None:
            seat.floor_due = Instant(self._actor.now() + self._floor_sync_ns)
            self._arm()

    def misheard(self, letter: Letter) -> None:
        """Count a message that is no question."""
        self._stray["no_question"] += 1
        self._actor.log.limited("message_unexpected", type(letter.message).__name__, sender=letter.sender)

    def answer(self, ask: Ask, unheard: int) -> Answer:
        """Answer to a question about this voter.

        Args:
            unheard: number of messages that were not heard from the holders of trusted keys.
        """
        if ask.what == "status":
            return Answer(request_id=ask.request_id, result=self._status(unheard))
        return Answer(request_id=ask.request_id, refusal=unknown_question(ask.what, ["status"]))

    def _status(self, unheard: int) -> dict[str, object]:
        now = self._actor.now()
        return {
            "voter": self._voter,
            "pairs": [seat.status(now) for seat in self.by_cluster.values()],
            "stray": dict(self._stray) | {"malformed": self._actor.malformed, "unheard": unheard},
        }

    def deadline(self) -> Instant | None:
        return soonest(*(seat.deadline() for seat in self.by_cluster.values()))

    def pass_time(self, now: Instant) -> None:
        """Write one floor per tick, so that questions come between two, and let the watches look."""
        seats = self.by_cluster.values()
        due = [seat for seat in seats if seat.floor_due is not None and seat.floor_due <= now]
        for seat in due[:1]:
            seat.sync_floor()
        for seat in seats:
            for watch in seat.watches:
                watch.pass_time(now)

    def close(self) -> None:
        """Write the floors that are in memory only."""
        for seat in self.by_cluster.values():
            if seat.has_floor_to_sync:
                seat.sync_floor()

    def _seat(self, pair: AskingPair, files: FileSystem) -> Seat:
        try:
            disk = VoterDisk(files, self._actor.data, pair.node, self._voter, pair.cluster)
        except WrongStore as error:
            remedy = "" if error.remedy else ": give --data the right directory, or move that one away"
            raise ConfigurationRefused(f"{error}{remedy}") from error
        voter = Voter(self._voter, pair.cluster, disk.store, self._actor.now(), pair.drift, pair.voters)
        seat = Seat(pair, voter, disk)
        log, mirrored = self._actor.log, disk.mirrored
        if mirrored.repaired_copies:
            log.warning("voter_store_repaired", node=pair.node, copies=", ".join(mirrored.repaired_copies))
        if mirrored.is_damaged:
            log.error("voter_store_damaged", node=pair.node, path=mirrored.directory, remedy="albireo voter reset")
        if seat.lists_differ:
            log.error("voter_lists_differ", node=pair.node, topology=", ".join(pair.voters))
        log.info("voter_opened", node=pair.node, state=voter.state(self._actor.now()).value)
        return seat

    def _tell(self, seat: Seat, kind: str) -> None:
        store = seat.voter.store
        assert store is not None
        promised = {"promised": store.promised, "promised_run": store.promised_run}
        self._actor.log.info("voter_kept", node=seat.pair.node, question=kind, **promised, **_record(store.record))

    def _tell_refusal(self, seat: Seat, voted: Voted) -> None:
        if not voted.is_granted:
            told = {"question": voted.question, "run": voted.to_run}
            self._actor.log.limited("voter_refused", voted.reason, node=seat.pair.node, reason=voted.reason, **told)


def _stranger(voter: str, question: Question) -> Voted:
    """The answer to a pair that this voter does not vote for."""
    return Voted(
        voter=voter,
        cluster=question.cluster,
        generation=0,
        to_run=question.run,
        round=question.round,
        question=_kind(question),
        is_granted=False,
        reason=VoterRefusal.FOREIGN_CLUSTER.value,
    )


def _kind(question: Question) -> str:
    return str(type(question).__struct_config__.tag)


def _record(record: Record) -> dict[str, Any]:
    names = ("epoch", "version", "holder", "run", "members", "voters", "is_forced")
    return {name: getattr(record, name) for name in names} | {"lease_ms": record.lease_ns // MS}


def _position(position: Any) -> list[int]:
    return [position.epoch, position.sequence]
