"""Rules of Hexabus left out one by one, to show that the world would notice. None of them is reachable from a node."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from albireo.codec.hexabus.journal import AllHave, HouseSnapshot, JournalRecord
from albireo.codec.hexabus.packets import NUMBER_MAX, decode
from albireo.codec.hexabus.recovery import RecoveryTold, encode_recovery
from albireo.machine.hexabus.acting import ActingDevice
from albireo.machine.hexabus.clocks import HouseClocks
from albireo.machine.hexabus.device import EventCame, HexDevice
from albireo.machine.hexabus.fold import HouseFold
from albireo.machine.hexabus.independence import Independence
from albireo.machine.hexabus.master import HexMaster, PutRecord
from albireo.machine.hexabus.names import EventNames
from albireo.machine.hexabus.order import EventOrder
from albireo.machine.hexabus.rows import Hearing, OrderRow, ReceiveRow
from albireo.machine.hexabus.vm import SmEvent
from albireo.sim.engine.stage import first_caught, taken
from albireo.sim.hexabus.world import HexWorld

SEEDS_PER_SHORTCUT: Final = 50


def _early(real: Any) -> Any:
    def event(self: HexMaster, source: Any, datagram: Any, *others: Any) -> None:
        before = len(self._pending)
        real(self, source, datagram, *others)
        if len(self._pending) > before:
            self._acknowledge(source, datagram.number)

    return event


def _always_new(real: Any) -> Any:
    def tell(self: ReceiveRow, datagram: Any, data: bytes) -> Hearing:
        hearing: Hearing = real(self, datagram, data)
        return Hearing.NEW if hearing is Hearing.AGAIN else hearing

    return tell


def _any_item(real: Any) -> Any:
    """An acknowledgement counts for all that is under way."""

    def has(self: HexMaster, host: str, cause: int, now: Any, number: bytes) -> None:
        for item in list(self._under_way):
            real(self, host, self.order.number_of(item), now, number)

    return has


def _acts_again(real: Any) -> Any:
    def hear(self: OrderRow, *arguments: Any, **named: Any) -> Hearing:
        hearing: Hearing = real(self, *arguments, **named)
        return Hearing.NEW if hearing is Hearing.AGAIN else hearing

    return hear


def _needs_nothing(real: Any) -> Any:
    return lambda self, datagram, needs, **named: real(self, datagram, 0, **named)


def _touches_nothing(_: Any) -> Any:
    return lambda self, event: ()


def _with(change: Callable[[HouseFold, str], tuple[bytes, ...]]) -> Callable[[Any], Any]:
    return lambda _: change


def _no_memory(fold: HouseFold, host: str) -> tuple[bytes, ...]:
    assert fold.silent is not None
    return encode_recovery(RecoveryTold(bytes(128), ()))


def _at_present(real: Any) -> Any:
    """A device goes on with memory and values of now, and its place that at which it joined."""

    def answer(self: HexMaster, to: Any, number: int) -> None:
        member = self.order.members[to.host]
        kept, member.pieces = member.pieces, self.fold._recovery(to.host)
        real(self, to, number)
        member.pieces = kept

    return answer


def _without_pieces(real: Any) -> Any:
    return lambda self, number: real(self, number) or True


def _folds_all(_: Any) -> Any:
    return lambda self, record: True


def _any_snapshot(_: Any) -> Any:
    return lambda self, record, now: isinstance(record.entry, HouseSnapshot) and record.term == self.term


def _with_zero(_: Any) -> Any:
    return lambda self, item: item % (NUMBER_MAX + 1)


def _silence(_: Any) -> Any:
    return lambda self, *arguments: None


def _twice(_: Any) -> Any:
    """The same entry is put again while it is on its way."""

    def put(self: HexMaster, entry: Any, to: Any = None, number: int = 0) -> None:
        self._tell_all_have()
        self._pending[entry] = to, number
        self._effects.append(PutRecord(JournalRecord(self.term, entry)))

    return put


def _keeps(kind: Any) -> Callable[[Any], Any]:
    """Entries of a kind are not put."""

    def change(real: Any) -> Any:
        return lambda self, entry, *others: None if isinstance(entry, kind) else real(self, entry, *others)

    return change


def _late_reset(real: Any) -> Any:
    def hear(self: OrderRow, datagram: Any, needs: int, *, is_reset: bool = False) -> Hearing:
        hearing: Hearing = real(self, datagram, needs, is_reset=is_reset)
        if is_reset and hearing is Hearing.OLD:
            self.go_on_behind(datagram.number)
            return Hearing.NEW
        return hearing

    return hear


def _one_first(real: Any) -> Any:
    def took(self: ReceiveRow, number: int, first: bytes) -> None:
        real(self, number, first)
        self.firsts, self.recent = self.firsts[-1:], (number,)

    return took


def _any_machines(_: Any) -> Any:
    return lambda self, entry: True


def _unmarked(_: Any) -> Any:
    return lambda self, event: tuple(SmEvent(one, event.eid, event.value) for one in self.ids(event))


def _one_by_one(_: Any) -> Any:
    return lambda self, packet, number: [EventCame(packet.origin, packet.eid, packet.value)]


def _first_alone(real: Any) -> Any:
    def waits_for(self: EventOrder, item: int) -> set[str]:
        return set() if getattr(decode(self.bytes_of(item)).packet, "place", 0) else real(self, item)

    return waits_for


Change = tuple[Any, str, Callable[[Any], Any]]
HEXABUS_SHORTCUTS: Final[Mapping[str, Change]] = {
    "event acknowledged before it is on record": (HexMaster, "_event", _early),
    "repeated event not known": (ReceiveRow, "tell", _always_new),
    "acknowledgement of an item counted for another": (HexMaster, "_has", _any_item),
    "device acts again on what is said again": (OrderRow, "hear", _acts_again),
    "device does not look at what an event needs": (OrderRow, "hear", _needs_nothing),
    "dependent events under way together": (Independence, "touched", _touches_nothing),
    "recovery without memory": (HouseFold, "_recovery", _with(_no_memory)),
    "recovery with what is so now": (HexMaster, "_answer_start", _at_present),
    "recovery that waits for no pieces": (ActingDevice, "_resumes", _without_pieces),
    "void records folded": (HouseFold, "_counts", _folds_all),
    "snapshot taken that others overtook": (HouseFold, "is_at", _any_snapshot),
    "number zero not left out": (EventOrder, "number_of", _with_zero),
    "entries put again while on their way": (HexMaster, "_put", _twice),
    "no word of what all have": (HexMaster, "_put", _keeps(AllHave)),
    "late copy of a reset taken for another one": (OrderRow, "hear", _late_reset),
    "first packets of other lives forgotten": (ReceiveRow, "took", _one_first),
    "joins and times of other machines count": (HouseFold, "_is_about", _any_machines),
    "machine acts for each name of an event": (EventNames, "of", _unmarked),
    "device acts before all names of an event are there": (HexDevice, "_whole", _one_by_one),
    "further names of an event left out": (EventOrder, "waits_for", _first_alone),
    "times of day not in the snapshot": (HouseClocks, "restore", _silence),
}
"""Rule that each leaves out: a class or module, the name of a function of it, and what takes its place."""


def catch(name: str, seeds: range) -> tuple[int, str] | None:
    """The first of these seeds whose world notices the shortcut, and what it saw."""
    owner, attribute, change = HEXABUS_SHORTCUTS[name]
    with taken((owner, attribute, change(owner.__dict__[attribute]))):
        return first_caught(lambda seed: HexWorld(seed).play(), seeds)
