"""Every interleaving of two register voters over one PLC, with the real machines: states, faults and checkers.

A machine is pure, so a step from a known state by a known event is remembered, and a state of the world is a tuple of
small numbers. Time is left out here: a wait ends at any moment at which what it waits for is true (no write of a broken
connection is on its way; a write has reached every connection). A mutation lets it end earlier. Leases are left out as
well: candidacies come at any moment. What is left is the record.

The PLC: a write is answered, lands on its own connection, and reaches the other one; with `has_lag` in any order. It
may land in two halves. Zeroing takes both blocks and no connection, so that writes on their way land after it.

Checked at each answer: a granted PREPARE knows every record decided below it; a record decided later than a higher
promise was known to that promise; one epoch has one holder and one run.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from albireo.codec.pair_message import Accept, Prepare, Question, Record, Voted
from albireo.codec.register_block import BLOCK_REGISTERS, Ballot, cluster_tag, encode_ballot
from albireo.machine.vote.events import (
    LONG_AGO,
    NOT_WATCHED,
    Connected,
    ConnectionLost,
    Effect,
    Event,
    OwnCopy,
    PersistCopy,
    ReadBlocks,
    RegisterConfig,
    RegisterPhase,
    RegistersRead,
    RegistersWritten,
    ResetConnection,
    WriteBlock,
)
from albireo.machine.vote.look import Look
from albireo.machine.vote.register import RegisterVoter
from albireo.machine.vote.voter import SendVote, VoteAsked
from albireo.model.instant import MS, Instant, TimePassed

NOW = Instant(1_000 * MS)
LEASE = 100 * MS
ZEROS = (0,) * BLOCK_REGISTERS
Rank = tuple[int, int]


class Bounds(NamedTuple):
    """How much may happen in one exploration, both members together."""

    epochs: int = 4
    """Highest epoch that is asked for; the first record has 2."""
    zeroings: int = 1
    restarts: int = 1
    breaks: int = 1
    tears: int = 0
    images: int = 0
    """Power cycles after which an image that was saved before comes back."""
    has_lag: bool = True


class Shortcuts(NamedTuple):
    """What is left out of the protocol; none in the real one."""

    machine: type[RegisterVoter]
    no_settle: bool = False
    no_dead_time: bool = False
    rebuilt_from_nothing: bool = False
    unsynced_copy: bool = False
    same_epoch_again: bool = False


class Untimed(RegisterVoter):
    """Leases never keep a candidacy away: the record has to be safe without them."""

    def _is_lease_running(self, look: Look, now: Instant) -> bool:
        return False

    def _begin(self, question: Question | None) -> list[Effect]:
        effects = super()._begin(question)
        self._become(has_moved=True)
        return effects


class Local(NamedTuple):
    """A member: its machine, its disk, and how far its candidacy is."""

    state: Any
    disk: OwnCopy
    previous: OwnCopy
    """Disk before the last sync."""
    run: int
    stage: str = "idle"
    epoch: int = 0
    basis: Rank = (0, 0)
    allowed: tuple[tuple[int, ...], ...] = ()


class Stepped(NamedTuple):
    """What came of one step, in numbers of the world."""

    local: int
    request: tuple[int, int]
    """(0, 0) none, (READ, 0), (WRITE, words)."""
    answer: tuple[str, int, Rank] | None
    """Granted: stage, epoch, rank; None: nothing, or a refusal."""
    is_hung_up: bool


class Side(NamedTuple):
    """A member and its part of the PLC."""

    local: int
    wire: tuple[int, ...]
    """Request or answer under way: (kind, ...)."""
    buffered: int
    """Write that was answered and has not landed; 0 none."""
    late: tuple[int, ...]
    """Writes of broken connections."""
    seen: int
    """Own block on the own connection."""
    shown: int
    """Own block on the other member's connection."""


class World(NamedTuple):
    sides: tuple[Side, Side]
    promises: tuple[tuple[int, Rank], ...]
    decided: tuple[tuple[int, int, int, tuple[int, ...]], ...]
    """(epoch, version, run, set)."""
    left: tuple[int, ...]
    """Zeroings, restarts, breaks, tears, images still to come."""
    image: tuple[int, int] | None


class Report(NamedTuple):
    states: int
    transitions: int
    violation: str
    """"" if there is none."""
    trace: tuple[str, ...]
    decided: frozenset[tuple[int, int]]
    """(epoch, members in the set) of all records ever decided: what was reached at all."""


NOTHING, READ, WRITE = range(3)
ZEROING, RESTART, BREAK, TEAR, IMAGE = range(5)
QUIET = (NOTHING,)


def config(member: int, run: int, **changes: int) -> RegisterConfig:
    whole = RegisterConfig(
        name="plc",
        cluster="c",
        voters=("plc",),
        generation=1,
        member=member,
        run=run,
        lease_ns=LEASE,
        drift=0.0,
        reads_max=4,
    )
    return msgspec.structs.replace(whole, **changes)


def first_ballot(member: int) -> Ballot:
    """After `pair init`: epoch 2 of nobody's run, both members in the set."""
    return Ballot(
        count=1,
        cluster_tag=cluster_tag("c"),
        member=member,
        generation=1,
        lease_ms=LEASE // MS,
        promised=2,
        epoch=2,
        version=1,
        members=(0, 1),
    )


def record(epoch: int, run: int, members: tuple[int, ...], version: int = 1) -> Record:
    return Record(
        cluster="c",
        voters=("plc",),
        generation=1,
        epoch=epoch,
        version=version,
        holder=epoch % 2,
        run=run,
        members=members,
        lease_ns=LEASE,
    )


def padded(words: tuple[int, ...]) -> tuple[int, ...]:
    return words + ZEROS[len(words) :]


class Exploration:
    """Breadth first, so that the first violation found has the shortest trace."""

    def __init__(self, bounds: Bounds, shortcuts: Shortcuts) -> None:
        self.bounds = bounds
        self.shortcuts = shortcuts
        self._locals: list[Local] = []
        self._local_ids: dict[Local, int] = {}
        self._words: list[tuple[int, ...]] = [ZEROS]
        self._word_ids: dict[tuple[int, ...], int] = {ZEROS: 0}
        self._steps: dict[tuple[Any, ...], Stepped] = {}
        self._violation = ""

    def run(self, states_max: int = 700_000) -> Report:
        start = self._start()
        parents: dict[World, tuple[World, str] | None] = {start: None}
        queue = deque([start])
        transitions = 0
        reached: set[tuple[int, int]] = set()
        while queue:
            world = queue.popleft()
            for label, after in self._successors(world):
                transitions += 1
                if self._violation:
                    trace = (*self._trace(parents, world), label)
                    return Report(len(parents), transitions, self._violation, trace, frozenset(reached))
                if after not in parents:
                    parents[after] = (world, label)
                    queue.append(after)
                    reached.update((epoch, len(members)) for epoch, _, _, members in after.decided)
            if len(parents) > states_max:
                return Report(len(parents), transitions, "too many states", (), frozenset(reached))
        return Report(len(parents), transitions, "", (), frozenset(reached))

    def _trace(self, parents: dict[World, tuple[World, str] | None], world: World) -> list[str]:
        labels = []
        while (parent := parents[world]) is not None:
            world, label = parent
            labels.append(label)
        return labels[::-1]

    def _start(self) -> World:
        sides = []
        for member in (0, 1):
            copy = OwnCopy(ballot=first_ballot(member), landed=1)
            block = self._word_id(padded(encode_ballot(copy.ballot)))
            sides.append(Side(self._started(member, copy, 1), QUIET, 0, (), block, block))
        bounds = self.bounds
        left = (bounds.zeroings, bounds.restarts, bounds.breaks, bounds.tears, bounds.images)
        return World((sides[0], sides[1]), (), (), left, None)

    def _started(self, member: int, copy: OwnCopy, run: int) -> int:
        voter = self.shortcuts.machine(config(member, run), copy, LONG_AGO)
        voter.step(Connected(1), NOW)
        return self._local_id(Local(timeless(voter.state), copy, copy, run))

    def _local_id(self, local: Local) -> int:
        found = self._local_ids.get(local)
        if found is None:
            found = self._local_ids[local] = len(self._locals)
            self._locals.append(local)
        return found

    def _word_id(self, words: tuple[int, ...]) -> int:
        found = self._word_ids.get(words)
        if found is None:
            found = self._word_ids[words] = len(self._words)
            self._words.append(words)
        return found

    def _step(self, member: int, local_id: int, key: tuple[Any, ...]) -> Stepped:
        cached = self._steps.get((member, local_id, key))
        if cached is None:
            cached = self._steps[member, local_id, key] = self._stepped(member, self._locals[local_id], key)
        return cached

    def _stepped(self, member: int, local: Local, key: tuple[Any, ...]) -> Stepped:
        voter = self.shortcuts.machine(config(member, local.run), local.disk, LONG_AGO)
        voter.state = local.state
        effects = voter.step(self._event(member, local, key), NOW)
        request, answer, is_hung_up = (NOTHING, 0), None, False
        if key[0] == "prepare":
            local = local._replace(stage="prepare", epoch=key[1])
        elif key[0] == "accept":
            local = local._replace(stage="accept")
        for effect in effects:
            match effect:
                case PersistCopy(copy):
                    local = local._replace(disk=copy, previous=local.disk)
                case ReadBlocks():
                    request = (READ, 0)
                case WriteBlock(_, start, words):
                    assert start == 0
                    request = (WRITE, self._word_id(padded(words)))
                case SendVote(voted):
                    local, answer = self._answered(member, local, voted)
                case ResetConnection(connection):
                    is_hung_up = True
                    voter.step(ConnectionLost(connection), NOW)
                    voter.step(Connected(1), NOW)
        return Stepped(self._local_id(local._replace(state=timeless(voter.state))), request, answer, is_hung_up)

    def _event(self, member: int, local: Local, key: tuple[Any, ...]) -> Event:
        head: dict[str, Any] = {"cluster": "c", "generation": 1, "member": member, "run": local.run, "round": 0}
        match key[0]:
            case "read":
                own, other = self._words[key[1]], self._words[key[2]]
                return RegistersRead(1, own + other if member == 0 else other + own)
            case "written":
                return RegistersWritten(1)
            case "time":
                return TimePassed()
            case "prepare":
                return VoteAsked(Prepare(epoch=key[1], **head))
            case "accept":
                return VoteAsked(Accept(record=record(local.epoch, local.run, key[1]), **head))
            case _:
                return ConnectionLost(1)

    def _answered(self, member: int, local: Local, voted: Voted) -> tuple[Local, tuple[str, int, Rank] | None]:
        if not voted.is_granted:
            return local._replace(stage="idle", epoch=0, basis=(0, 0), allowed=()), None
        found = voted.record
        assert found is not None
        if local.stage == "accept":
            return local._replace(stage="holder", allowed=()), ("accept", local.epoch, found.rank)
        sets = tuple(sorted({found.members, (member,)})) if member in found.members else ()
        stage = "promised" if sets else "idle"
        return local._replace(stage=stage, basis=found.rank, allowed=sets), ("prepare", local.epoch, found.rank)

    def _successors(self, world: World) -> Iterator[tuple[str, World]]:
        for member in (0, 1):
            yield from self._asks(world, member)
            yield from self._plc_serves(world, member)
            yield from self._lands(world, member)
            yield from self._waits_end(world, member)
            yield from self._fails(world, member)
        if world.left[ZEROING]:
            one, two = (side._replace(seen=0, shown=0) for side in world.sides)
            yield "registers zeroed", world._replace(sides=(one, two), left=_less(world.left, ZEROING))
        if world.left[IMAGE]:
            if world.image is None:
                yield "image saved", world._replace(image=(world.sides[0].shown, world.sides[1].shown))
            else:
                one, two = (s._replace(seen=i, shown=i) for s, i in zip(world.sides, world.image, strict=True))
                yield "old image back", world._replace(sides=(one, two), left=_less(world.left, IMAGE))

    def _asks(self, world: World, member: int) -> Iterator[tuple[str, World]]:
        side = world.sides[member]
        local = self._locals[side.local]
        if local.state.phase is not RegisterPhase.IDLE:
            return
        if local.stage == "promised":
            for members in local.allowed:
                yield self._apply(world, member, ("accept", members), f"asks epoch {local.epoch} for set {members}")
            return
        epoch = local.disk.ballot.promised + (0 if self.shortcuts.same_epoch_again else 1)
        epoch += (epoch + member) % 2
        if epoch <= self.bounds.epochs:
            yield self._apply(world, member, ("prepare", epoch), f"prepares epoch {epoch}")

    def _plc_serves(self, world: World, member: int) -> Iterator[tuple[str, World]]:
        side, other = world.sides[member], world.sides[1 - member]
        if side.wire[0] == READ:
            key = ("read", side.seen, other.shown)
            is_hung_up = self._step(member, side.local, key).is_hung_up
            if not is_hung_up:
                yield self._apply(world, member, key, "reads both blocks")
            elif world.left[BREAK]:
                # Without breaks to spare the write becomes visible in time.
                left = world._replace(left=_less(world.left, BREAK))
                yield self._apply(left, member, key, "reads and hangs up")
        if side.wire[0] != WRITE:
            return
        words = side.wire[1]
        if self.bounds.has_lag:
            yield self._written(world, member, "gets an answer, nothing landed", buffered=words)
            yield self._written(world, member, "writes, unseen by the other", seen=words)
        else:
            yield self._written(world, member, "writes", seen=words, shown=words)
        if world.left[TEAR]:
            half = self._word_id(self._words[words][:9] + self._words[side.seen][9:])
            torn = world._replace(left=_less(world.left, TEAR))
            yield self._written(torn, member, "writes half", seen=half, shown=half, buffered=words)

    def _written(self, world: World, member: int, label: str, **changes: int) -> tuple[str, World]:
        """The PLC takes the write, and says so: nobody else can tell the two apart."""
        _, after = _moved(world, member, label, **changes)
        return self._apply(after, member, ("written",), label)

    def _lands(self, world: World, member: int) -> Iterator[tuple[str, World]]:
        side = world.sides[member]
        if side.seen != side.shown:
            yield _moved(world, member, "block reaches the other connection", shown=side.seen)
        if side.buffered:
            shown = side.shown if self.bounds.has_lag else side.buffered
            yield _moved(world, member, "buffered write lands", seen=side.buffered, shown=shown, buffered=0)
        for index, words in enumerate(side.late):
            rest = side.late[:index] + side.late[index + 1 :]
            yield _moved(world, member, "late write lands", seen=words, shown=words, late=rest)
            yield _moved(world, member, "late write is lost", late=rest)

    def _waits_end(self, world: World, member: int) -> Iterator[tuple[str, World]]:
        side = world.sides[member]
        local = self._locals[side.local]
        match local.state.phase:
            case RegisterPhase.PAUSED:
                is_over = True
            case RegisterPhase.SILENT:
                is_over = not side.late or self.shortcuts.no_dead_time
            case RegisterPhase.SETTLING:
                is_over = side.seen == side.shown or self.shortcuts.no_settle
            case RegisterPhase.IDLE:
                # A look changes something only when the own block has to be restored.
                is_over = self._words[side.seen] != padded(encode_ballot(local.disk.ballot))
            case _:
                is_over = False
        if is_over:
            yield self._apply(world, member, ("time",), f"{local.state.phase.value}: time passed")

    def _fails(self, world: World, member: int) -> Iterator[tuple[str, World]]:
        side = world.sides[member]
        local = self._locals[side.local]
        late_ones = {side.late, (*side.late, *_in_flight(side))}
        if world.left[BREAK] and local.state.phase is not RegisterPhase.SILENT:
            stepped = self._step(member, side.local, ("lost",))
            again = self._reconnected(member, stepped.local)
            for late in sorted(late_ones):
                broken = side._replace(local=again, wire=QUIET, buffered=0, late=late)
                left = _less(world.left, BREAK)
                yield f"{'AB'[member]} loses its connection", _with(world._replace(left=left), member, broken)
        if world.left[RESTART]:
            copy = local.previous if self.shortcuts.unsynced_copy else local.disk
            if self.shortcuts.rebuilt_from_nothing:
                copy = OwnCopy(ballot=first_ballot(member), landed=1)
            fresh = self._started(member, copy, local.run + 1)
            for late in sorted(late_ones):
                started = side._replace(local=fresh, wire=QUIET, buffered=0, late=late)
                left = _less(world.left, RESTART)
                yield f"{'AB'[member]} restarts", _with(world._replace(left=left), member, started)

    def _reconnected(self, member: int, local_id: int) -> int:
        local = self._locals[local_id]
        voter = self.shortcuts.machine(config(member, local.run), local.disk, LONG_AGO)
        voter.state = local.state
        voter.step(Connected(1), NOW)
        return self._local_id(local._replace(state=timeless(voter.state)))

    def _apply(self, world: World, member: int, key: tuple[Any, ...], label: str) -> tuple[str, World]:
        side = world.sides[member]
        stepped = self._step(member, side.local, key)
        wire: tuple[int, ...] = QUIET if stepped.request[0] == NOTHING else stepped.request
        late, buffered = side.late, side.buffered
        if self._locals[stepped.local].state.phase is RegisterPhase.SILENT and buffered:
            late, buffered = (*late, buffered), 0
        after = _with(world, member, side._replace(local=stepped.local, wire=wire, late=late, buffered=buffered))
        if stepped.answer is not None:
            after = self._judged(after, member, *stepped.answer)
        return f"{'AB'[member]} {label}", after

    def _judged(self, world: World, member: int, stage: str, epoch: int, rank: Rank) -> World:
        local = self._locals[world.sides[member].local]
        if stage == "prepare":
            unseen = [d for d in world.decided if d[0] < epoch and (d[0], d[1]) > rank]
            if unseen:
                self._violation = f"epoch {epoch} goes on from {rank}, but {unseen[0]} was decided"
            return world._replace(promises=tuple(sorted({*world.promises, (epoch, rank)})))
        passed = [p for p in world.promises if p[0] > epoch and p[1] < rank]
        if passed:
            self._violation = f"{rank} decided, but epoch {passed[0][0]} was promised on the ground of {passed[0][1]}"
        ballot = local.disk.ballot
        if any(d[0] == epoch and d[2] != local.run for d in world.decided):
            self._violation = f"epoch {epoch} has two runs"
        return world._replace(decided=tuple(sorted({*world.decided, (epoch, rank[1], local.run, ballot.members)})))


def timeless(state: Any) -> Any:
    """Without instants, and without what only a lease needs."""
    return msgspec.structs.replace(
        state,
        silent_until=LONG_AGO,
        wait_until=LONG_AGO,
        starts_until=LONG_AGO,
        changed_at=LONG_AGO,
        looked_at=LONG_AGO,
        watched=NOT_WATCHED,
        trouble="",
    )


def _in_flight(side: Side) -> tuple[int, ...]:
    """Writes that a break leaves on their way."""
    waiting = (side.wire[1],) if side.wire[0] == WRITE else ()
    return (*((side.buffered,) if side.buffered else ()), *waiting)


def _less(left: tuple[int, ...], what: int) -> tuple[int, ...]:
    return (*left[:what], left[what] - 1, *left[what + 1 :])


def _with(world: World, member: int, side: Side) -> World:
    one, two = world[0]
    return World((side, two) if member == 0 else (one, side), *world[1:])  # Faster than `_replace`, and called most.


def _moved(world: World, member: int, label: str, **changes: Any) -> tuple[str, World]:
    return f"{'AB'[member]}: {label}", _with(world, member, world.sides[member]._replace(**changes))
