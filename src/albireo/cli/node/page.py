"""A node's status in five seconds: who leads, is it safe, what is wrong, what to do. No I/O."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import UnsetType

from albireo.cli.display import counted, time_text
from albireo.cli.pair.table import (
    FOLLOWS,
    TRUST_HINT,
    MemberRow,
    catching_up_text,
    local_text,
    private_text,
    short,
    troubles,
    untrusted_text,
)
from albireo.model.status import FaceStatus, NodeStatus

_WORDS: Final = {
    "active": "leads",
    "solo": "leads alone",
    "ready": "is ready to take over",
    "catching_up": "catches up",
    "joining": "waits for the voters",
    "recovering": "takes over",
    "suspended": "stands still",
    "fenced": "is out: its disk failed",
    "silent": "is not heard",
}

_NOT_REACHED: Final = frozenset({"BadNoCommunication", "BadWaitingForInitialData"})
_REMEDIES: Final = {
    "BadConfigurationError": "the device refuses the address: is its row in the item table right?",
    "BadNoCommunication": "its unit does not answer: is it on, its number right?",
    "BadSensorFailure": "the device says that it has no value: look at the sensor",
    "NaN": "the device says that it has no value: look at the sensor",
}


class Trouble(msgspec.Struct, frozen=True):
    """One thing that is wrong, and the next step; the step is empty where the sentence has it."""

    what: str
    todo: str = ""


class StatusPage(msgspec.Struct, frozen=True, kw_only=True):
    """The page."""

    leads: str
    is_safe: bool
    safe: str
    """Sentence that says where what is recorded now is kept."""
    plant: str
    served: tuple[str, ...]
    """Each page and other face of the node: where it is, and the fingerprint of its certificate."""
    wrong: tuple[Trouble, ...]

    def lines(self) -> list[str]:
        wrong = [f"  - {one.what}{f': {one.todo}' if one.todo else ''}" for one in self.wrong]
        return [
            self.leads,
            f"{'SAFE' if self.is_safe else 'NOT SAFE'}: {self.safe}",
            self.plant,
            *self.served,
            *(["What is wrong, and what to do:", *wrong] if wrong else ["Nothing is wrong."]),
        ]


class StatusAnswer(NodeStatus, frozen=True, kw_only=True):
    """All that `albireo status --json` says: the status of CORE, and what others say of the node."""

    data: str
    """Place that was asked."""
    stats: dict[str, Any] | None
    """Figures of the history; None: it does not answer."""
    actors: list[dict[str, Any]] | UnsetType | None
    """Actors, as boot tells them; None: it does not answer; not there of a node on another machine."""
    votes: dict[str, Any] | None
    """Promises of the voter of this place; None: it votes for none, or does not answer."""
    untrusted: tuple[str, ...] = ()
    """Names of the topology whose keys are not trusted here."""
    members: tuple[MemberRow, ...] = ()
    other_faces: tuple[FaceStatus, ...] = ()
    """Faces of the other member of a pair, if it answers."""
    summary: StatusPage | None = None


def page_of(status: StatusAnswer) -> StatusPage:
    """The page of what was answered."""
    is_safe, safe = _safety(status)
    cases, forced, present = status.cases, status.forced_items, status.sessions
    by_hand = f", {forced} forced (albireo forces)" if forced else ""
    who = f"; {counted(present, 'session')} (albireo sessions list)" if present else ""
    return StatusPage(
        leads=_leads(status),
        is_safe=is_safe,
        safe=safe,
        plant=f"{counted(status.items, 'item')}, {status.bad_items} bad (albireo items){by_hand}; "
        f"{counted(cases.open, 'open alarm')}, {cases.unacked} not acknowledged (albireo cases list){who}",
        served=tuple(f"{one.name}: {one.address}" for one in (*status.faces, *status.other_faces) if one.address.url),
        wrong=tuple(_wrong(status)),
    )


def _leads(status: StatusAnswer) -> str:
    rows = status.members
    if not rows:
        return f"{status.node} runs alone, it is no member of a pair"
    said = [f"{row.member} {_WORDS.get(row.state, row.state)}" for row in sorted(rows, key=lambda one: one.lag or -1)]
    nobody = "" if any(row.role == "ACTIVE" for row in rows) else "NOBODY LEADS: "
    return f"{nobody}{', '.join(said)}"


def _safety(status: StatusAnswer) -> tuple[bool, str]:
    """Whether each new record is kept in as many places as it should be, and where."""
    rows = status.members
    if rows and not any(row.role == "ACTIVE" for row in rows):
        return False, "nothing is recorded"
    if status.log.admission and status.role not in FOLLOWS:
        return False, f"nothing is recorded: {status.log.admission}"
    if not rows:
        return True, "what is recorded is on the disk of this machine, and nowhere else"
    active = next(row for row in rows if row.role == "ACTIVE")
    members = active.set or next((row.set for row in rows if row.set), ())
    if active.at_risk_since_ns or len(members) < 2:
        since = f" since {time_text(active.at_risk_since_ns)}" if active.at_risk_since_ns else ""
        way = catching_up_text(active)
        return False, f"what {active.member} records is on its disk only{since}{way and '; '}{way}"
    exceptions = (local_text(status.durability), private_text(status.replication))
    where = f"what is recorded is on the disks of {' and '.join(short(one) for one in members)}"
    return True, "; but ".join(filter(None, (where, *exceptions)))


def _wrong(status: StatusAnswer) -> Iterator[Trouble]:
    if status.members:
        yield from (Trouble(line) for line in troubles(status.members))
        yield from (Trouble(line) for line in untrusted_text(status.untrusted))
    if status.log.lacks_to:
        yield Trouble(
            f"STATE IS MISSING: no snapshot could be read, and the log begins behind {status.log.lacks_to}; "
            "items, cases and orders from before that are unknown",
            "restore the data directory from a copy, or go on",
        )
    if status.door is not None and (closed := status.door.closed_because):
        yield Trouble(f"the door {status.door.endpoint} is closed, no program gets in: {closed}")
    if status.door is not None:
        is_unheard = any(TRUST_HINT in one for one in troubles(status.members))
        for host, meant in status.door.names.items():
            if meant.trouble or is_unheard:
                yield Trouble(meant.text(host), "is that right? See the name server and /etc/hosts of this machine")
    if status.door is not None and (why := status.door.key_trouble):
        yield Trouble(f"THE KEYS CAN'T BE READ, and the next start will fail: {why}")
    if status.actors is None:
        yield Trouble("the node's boot does not answer", "look at its log")
    for one in status.actors or ():
        if one["state"] != "running" and not (one["state"] == "starting" and not one["restarts"]):
            yield Trouble(f"{one['name']} is {one['state']}: {one['cause']}", "it is started again; its log says why")
    yield from _devices(status)
    yield from _bad(status)
    if status.stats and status.stats["problem"]:
        yield Trouble(f"HISTORY IS AT RISK: {status.stats['problem']}")
    if status.superseded:
        yield Trouble(
            f"refused as superseded {status.superseded} times: a program goes on under a name that a later one has",
            "end it, or give it a name of its own",
        )
    yield from _nodes(status)
    if unacked := status.cases.unacked:
        alarms = "1 alarm is" if unacked == 1 else f"{unacked} alarms are"
        yield Trouble(f"{alarms} not acknowledged", "albireo cases list, then albireo cases ack NUMBER")


def _nodes(status: StatusAnswer) -> Iterator[Trouble]:
    """Other nodes of the tree that are not as they should be."""
    if status.nodes.silent:
        yield Trouble(f"not heard: {', '.join(status.nodes.silent)}", "albireo tree")
    if status.nodes.set_back:
        behind = ", ".join(status.nodes.set_back)
        yield Trouble(f"came back with less than is known here: {behind}: a backup, or a new disk", "albireo tree")
    if status.nodes.unreached_since_ns is not None:
        since = time_text(status.nodes.unreached_since_ns)
        yield Trouble(f"NOBODY ABOVE IS REACHED since {since}: {status.nodes.above} is not heard", "its link, its keys")


def _bad(status: StatusAnswer) -> Iterator[Trouble]:
    """Items without a usable value, but for those of an adapter or a device that is told already."""
    is_led = status.role not in FOLLOWS
    lost = {one.name for one in status.adapters if one.trouble or one.device is False or (is_led and not one.heard)}
    for one in status.bad:
        if one.node == status.node and one.adapter in lost and one.reason in _NOT_REACHED:
            continue
        node = "" if one.node == status.node else f"{one.node}:"
        count = counted(one.watched, "watched item") if one.watched else counted(one.items, "item")
        names = ", ".join(f"{node}{name}" for name in one.names) + (", ..." if one.items > len(one.names) else "")
        blind = ", not judged" if one.watched else ""
        what = f"{count} of {node}{one.adapter} without a usable value{blind}"
        yield Trouble(f"{what} ({one.reason}): {names}", _REMEDIES.get(one.reason, "albireo items shows more"))


def _devices(status: StatusAnswer) -> Iterator[Trouble]:
    look = "albireo status -v, and the node's log"
    yield from (Trouble(f"the face {one.name} {one.trouble}", look) for one in status.faces if one.trouble)
    for one in status.adapters:
        if one.trouble:
            yield Trouble(f"the adapter {one.name} {one.trouble}", look)
        elif one.device is False:
            remedy = "the node's log says why (device_lost), `albireo doctor --topology FILE` asks the device"
            yield Trouble(f"the device of {one.name} does not answer", remedy)
        elif not one.heard and status.role not in FOLLOWS:
            yield Trouble(f"the adapter or program {one.name} is not heard", "start it, if it should run")
