"""House: devices, and the state machines that are distributed over them, as data that stand in files and records.

    house       JSON, strict; conditions are told apart by `type`
    condition   event, all, any: what devices tell; after: time in a state; clock: time of day

Nothing of it is executed when it is read. Whether its names mean something, the compiler says.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Final, NoReturn, Union, cast

import msgspec
from msgspec import Meta

from albireo.codec.errors import DecodeError
from albireo.codec.hexabus.values import HexType
from albireo.model.bounded import Name

HOUSE_BYTES_MAX: Final = 1 << 20
DEPTH_MAX: Final = 16
"""Most conditions inside each other."""
EVERY_DAY: Final = 0b111_1111
Origin = Annotated[bytes, Meta(min_length=16, max_length=16)]
"""IPv6 address."""
Number = bool | int | float


class Relation(StrEnum):
    EQUAL = "=="
    UNEQUAL = "!="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="


OPPOSITES: Final = {
    Relation.EQUAL: Relation.UNEQUAL,
    Relation.LESS: Relation.GREATER_OR_EQUAL,
    Relation.GREATER: Relation.LESS_OR_EQUAL,
}
OPPOSITES.update({opposite: relation for relation, opposite in OPPOSITES.items()})


GROUP_PREFIX: Final = bytes.fromhex("ff15")
"""Begin of a group's id: a transient multicast address of the site, so never that of a device."""


class DeviceGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All devices of a group."""

    group: Name

    @property
    def id(self) -> bytes:
        """By what events of its devices are told, 16 bytes: it follows from the name alone, and the last byte is 0."""
        return GROUP_PREFIX + sha256(self.group.encode()).digest()[:13] + b"\0"


Devices = Name | DeviceGroup
"""Name, or pattern with `*`, or a group."""


class _OnValues(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A condition on values, which can be part of another one."""

    def __and__(self, other: "_OnValues") -> "AllOf":
        return AllOf(_parts(AllOf, self, other)) if isinstance(other, _OnValues) else NotImplemented

    def __or__(self, other: "_OnValues") -> "AnyOf":
        return AnyOf(_parts(AnyOf, self, other)) if isinstance(other, _OnValues) else NotImplemented

    def __bool__(self) -> NoReturn:
        raise TypeError("a condition is neither true nor false here: use &, | and ~, and compare once")


class EventCondition(_OnValues, frozen=True, tag="event"):
    """A device tells of an endpoint, and its value compares so."""

    devices: Devices
    endpoint: Name
    relation: Relation
    value: Number
    every: bool = False
    """The last values of all these devices compare so; False: that of one of them."""
    samples: Annotated[int, Meta(ge=1, le=255)] = 1
    """So many times one after another."""

    def in_a_row(self, samples: int) -> "EventCondition":
        """Met once so many events one after another have met it, all in one state. Raises ValueError: they are none."""
        if not 1 <= samples <= 255:
            raise ValueError(f"{samples} events in a row can't be counted")
        return msgspec.structs.replace(self, samples=samples)

    def __invert__(self) -> "EventCondition":
        if self.samples > 1:
            raise TypeError("events in a row have no opposite")
        return msgspec.structs.replace(self, relation=OPPOSITES[self.relation], every=not self.every)


class AllOf(_OnValues, frozen=True, tag="all"):
    """The last values meet all of these. A value that was never told meets none."""

    parts: Annotated[tuple["ValueCondition", ...], Meta(min_length=1, max_length=64)]

    def __invert__(self) -> "AnyOf":
        return AnyOf(tuple(~one for one in self.parts))


class AnyOf(_OnValues, frozen=True, tag="any"):
    """The last values meet one of these."""

    parts: Annotated[tuple["ValueCondition", ...], Meta(min_length=1, max_length=64)]

    def __invert__(self) -> "AllOf":
        return AllOf(tuple(~one for one in self.parts))


ValueCondition = Union[EventCondition, AllOf, AnyOf]  # noqa: UP007  # Its name stands in its own parts.


def _parts(kind: type[AllOf] | type[AnyOf], *given: _OnValues) -> tuple[ValueCondition, ...]:
    """Conditions without those of the same kind around them."""
    found = [part for one in given for part in (one.parts if isinstance(one, kind) else (one,))]
    return cast("tuple[ValueCondition, ...]", tuple(found))


class TimeCondition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="after"):
    """The state was entered so many seconds ago."""

    seconds: Annotated[int, Meta(ge=1, lt=1 << 31)]


class ClockCondition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="clock"):
    """A time of day is reached."""

    minute: Annotated[int, Meta(ge=0, lt=24 * 60)]
    """Since local midnight."""
    days: Annotated[int, Meta(ge=1, le=EVERY_DAY)] = EVERY_DAY
    """Days of the week; bit 0: Monday."""


Condition = EventCondition | AllOf | AnyOf | TimeCondition | ClockCondition


class WriteAction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Devices give an endpoint a value."""

    devices: Devices
    endpoint: Name
    value: Number


class Transition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A way from one state to another."""

    state: Name
    condition: Condition
    actions: Annotated[tuple[WriteAction, ...], Meta(max_length=255)]
    go: Name
    bad: Name = ""
    """State that follows if a device can't write what it should; empty: none."""


class HouseMachine(msgspec.Struct, forbid_unknown_fields=True):
    """A state machine."""

    name: Name
    state: Name
    """The one in which it begins."""
    transitions: Annotated[list[Transition], Meta(max_length=255)] = []

    def on(self, state: str, condition: Condition, *actions: WriteAction, go: str = "", bad: str = "") -> None:
        """Have a condition lead from a state to another one, or back to itself.

        Args:
            actions: what is written on the way.
            go: the state that is entered; empty: the same.
            bad: the state that follows if a device tells that it could not write; empty: none.
        """
        self.transitions.append(Transition(state, condition, actions, go or state, bad))

    @property
    def states(self) -> list[str]:
        """All states, the first one first."""
        named = [name for one in self.transitions for name in (one.state, one.go, one.bad or one.go)]
        return list(dict.fromkeys([self.state, *named]))


class HouseEndpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An endpoint of a device as programs know it."""

    eid: Annotated[int, Meta(ge=0, le=0xFFFFFFFF)]
    datatype: HexType


class HouseDevice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A device as programs know it."""

    origin: Origin
    endpoints: Annotated[Mapping[Name, HouseEndpoint], Meta(max_length=255)]
    groups: Annotated[frozenset[Name], Meta(max_length=255)] = frozenset()
    """Names of groups to which it belongs."""


class House(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Devices by name, and the machines that are distributed over them."""

    devices: Annotated[Mapping[Name, HouseDevice], Meta(max_length=1_000)]
    machines: Annotated[Sequence[HouseMachine], Meta(max_length=255)]
    master: Origin


_encoder: Final = msgspec.json.Encoder(order="deterministic")
_decoder: Final = msgspec.json.Decoder(House)


def encode_house(house: House) -> bytes:
    return _encoder.encode(house)


def decode_house(data: bytes) -> House:
    """Inverse of `encode_house`. Raises DecodeError: it is no house."""
    if len(data) > HOUSE_BYTES_MAX:
        raise DecodeError(HOUSE_BYTES_MAX, f"a house has {HOUSE_BYTES_MAX:,} bytes at most")
    try:
        house = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(0, str(error)) from error
    inside = [one.condition for machine in house.machines for one in machine.transitions]
    for _ in range(DEPTH_MAX):
        inside = [part for one in inside if isinstance(one, AllOf | AnyOf) for part in one.parts]
    if inside:
        raise DecodeError(0, f"conditions stand in each other more than {DEPTH_MAX} deep")
    return house
