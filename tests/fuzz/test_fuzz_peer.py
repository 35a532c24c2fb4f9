"""Hostile words of the other member: the member machine refuses or takes them, and never raises.

Who may speak as the other member is decided before (ADR-0144); its own key may still be in wrong hands, or its software
wrong. Real messages of a pair, with one to four of their fields changed, meet copies of real machines in many states.
"""

import copy
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from albireo.codec.message import decode
from albireo.codec.pair_message import (
    FoldsAsked,
    FoldsSent,
    Frames,
    Leaving,
    PeerMessage,
    RangeAsked,
    RangeSent,
    Yielded,
)
from albireo.machine.pair.events import (
    AppendFrames,
    Commit,
    CutTo,
    Effect,
    FromPeer,
    LogChanged,
    Replicate,
    StartOver,
    State,
    SwitchoverAsked,
)
from albireo.machine.pair.member import Member
from albireo.model.instant import SECOND, Instant, TimePassed
from albireo.model.log_view import LogView
from albireo.model.position import EpochEntry, Position
from tests.parts.admin_actions import done
from tests.parts.bounds import changed as extreme
from tests.parts.bounds import encoded, structs
from tests.parts.pair import Side, Table

pytestmark = pytest.mark.slow

COPIES = 25
"""Copies of each machine in each state."""
NUMBERS = (-(1 << 63), -1, 0, 1, 2, 3, 1 << 31, (1 << 63) - 1, (1 << 64) - 1)
HISTORIES = (
    (),
    (EpochEntry(4, 9, 1), EpochEntry(2, 1, 2)),
    (EpochEntry(2, 9, 1), EpochEntry(4, 1, 2)),
    (EpochEntry(2, 1, 1), EpochEntry(2, 1, 1)),
    (EpochEntry(-5, -9, 1), EpochEntry(-4, -9, 2)),
    (EpochEntry(1 << 63, 1 << 63, 1),),
)


def stages(table: Table) -> Iterator[Side]:
    """Both members in every state that a pair comes through, one after the other."""
    yield from table.sides
    done(table.sides[0], "pair_init")
    for duration_ns in (SECOND // 10, SECOND // 5, SECOND // 2, SECOND, SECOND, 2 * SECOND, 4 * SECOND):
        table.pass_time(duration_ns)
        yield from table.sides
    table.sides[0].step(SwitchoverAsked("fuzz"))
    for _ in range(8):
        table.pass_time(SECOND // 50)
        yield from table.sides
    table.pass_time(2 * SECOND)
    yield from table.sides
    table.silent = set(table.voters)
    table.pass_time(3 * SECOND)
    yield from table.sides
    table.silent.clear()
    table.sides[0].is_up = False
    table.pass_time(4 * SECOND)
    yield from table.sides


def words_to(side: Side) -> list[PeerMessage]:
    """Real messages that the other member could say to this one now, one of each type at least."""
    own, other = side.member.own, side.table.sides[1 - side.index].member.own
    head = other.peer_head
    following, holder = side.member.following, side.member.holder
    epoch = following.epoch if following is not None else holder.epoch if holder is not None else 2
    session = following.session if following is not None else holder.session if holder is not None else 1
    to: dict[str, Any] = {"to_run": own.run, "epoch": epoch, "session": session}
    end = side.log.end
    told = [one for one in side.table.told[-40:] if one.member == other.index]
    return [
        *told,
        Frames(**head, **to, previous=end.sequence, last=Position(epoch, end.sequence + 1), committed=end, payload=b""),
        FoldsAsked(**head, **to, part=0),
        FoldsSent(**head, **to, part=0, parts=1, position=end, log_time_ms=1, payload=b""),
        RangeAsked(**head, **to, after=0),
        RangeSent(**head, **to, after=0, payload=b""),
        Leaving(**head),
        Yielded(**head, epoch=epoch, position=end),
    ]


def changed(message: PeerMessage, chance: Random) -> PeerMessage:
    """The message with one to four fields that nobody would say; its head stays, mostly."""
    fields = [one for one in msgspec.structs.fields(message) if one.name != "payload"]
    changes: dict[str, object] = {}
    for field in chance.sample(fields, min(len(fields), chance.randrange(1, 5))):
        if field.name in ("cluster", "member", "run", "store", "to_run") and chance.random() < 0.9:
            continue
        match getattr(message, field.name):
            case bool(value):
                changes[field.name] = not value
            case int(value):
                changes[field.name] = chance.choice((*NUMBERS, value - 1, value + 1))
            case str():
                changes[field.name] = chance.choice(("", "x", "active"))
            case Position(epoch, sequence):
                numbers = (*NUMBERS, epoch, sequence + 1)
                changes[field.name] = Position(chance.choice(numbers), chance.choice(numbers))
            case tuple() if field.name == "history":
                changes[field.name] = chance.choice(HISTORIES)
            case tuple() if field.name == "members":
                changes[field.name] = chance.choice(((), (1,), (0, 1), (1, 0), (7, -1)))
            case _:
                pass
    return msgspec.structs.replace(message, **changes)


def check(effects: list[Effect], log: LogView) -> None:
    """Everything that is wanted done can be done."""
    end = log.end.sequence
    epoch_of = next((one.history.epoch_of for one in effects if isinstance(one, StartOver)), log.history.epoch_of)
    for effect in effects:
        match effect:
            case CutTo(sequence):
                assert 0 <= sequence <= end
            case StartOver(begin, _):
                assert begin.position.sequence >= 0
            case Replicate(after=after):
                assert 0 <= after <= end
            case AppendFrames(_, last):
                assert last.sequence > end and last.epoch == epoch_of(last.sequence)
                end = last.sequence
            case Commit(position):
                assert log.told.sequence < position.sequence <= end
                assert position.epoch == epoch_of(position.sequence)
            case _:
                pass


def hear(machine: Member, log: LogView, word: PeerMessage, now: Instant) -> None:
    check(machine.step(FromPeer(word), log, now), log)
    if machine.holder is not None:
        assert machine.holder.lease.until <= now + machine.config.lease_ns
    machine.step(LogChanged(), log, now)
    machine.step(TimePassed(), log, Instant(now + SECOND // 10))


@pytest.mark.parametrize("seed", range(4))
def test_no_word_of_the_other_member_raises(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    seen: set[State] = set()
    kinds: set[type] = set()
    for side in stages(Table(tmp_path)):
        seen.add(side.member.state)
        words = words_to(side)
        for _ in range(COPIES):
            machine = copy.deepcopy(side.member)
            for _ in range(chance.randrange(1, 4)):
                word = changed(chance.choice(words), chance)
                kinds.add(type(word))
                hear(machine, side.log, word, side.table.now)
    assert {State.JOINING, State.READY, State.ACTIVE, State.SUSPENDED} <= seen
    assert len(kinds) >= 10


def test_no_extreme_value_of_any_field_raises(tmp_path: Path) -> None:
    """Every field of every message at its bounds, one after the other, in every state."""
    for side in stages(Table(tmp_path)):
        head: dict[str, Any] = {**side.table.sides[1 - side.index].member.own.peer_head}
        machine = copy.deepcopy(side.member)
        for kind in structs(PeerMessage):
            for value, is_within in extreme(kind):
                if is_within and len(encoded(value)) < 10_000:
                    word, _ = decode([encoded(value | (head if side.index else {}))])
                    assert isinstance(word, PeerMessage)
                    hear(machine, side.log, word, side.table.now)
