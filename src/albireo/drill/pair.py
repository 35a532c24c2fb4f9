"""The pair of a drill: two members, three witnesses and a gate as real processes, their keys, their places.

Everything lies in one directory that is made for it:

    topology.toml   keys/NAME/   primary/ backup/ w1/ w2/ w3/ gate/   NAME.log

Links are encrypted as in a plant; the keys are made for this run and die with it.
"""

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Final

from albireo.client import ClientError, NodeRefused, connect
from albireo.drill.ground import DrillError, Ground, ProcessHost
from albireo.drill.plcs import GATE, VOTERS, adapters, write_tables
from albireo.drill.ports import KeptPorts
from albireo.drill.process import Group
from albireo.model.access import AccessRole
from albireo.model.refusal import RefusalCode
from albireo.model.status import NodeStatus, PairStatus
from albireo.runtime.errors import RuntimeFault
from albireo.runtime.link.keys import Keys, introduce
from albireo.runtime.link.lines import LineTo

NODE: Final = "root"
MEMBERS: Final = ("primary", "backup")
WITNESSES: Final = ("w1", "w2", "w3")
START_S: Final = 120.0
"""Twelve processes that import numpy, on two busy cores."""
HEALTHY_S: Final = 180.0
STEADY_S: Final = 1.0
"""Time without a fault before one is done."""
SWITCH_S: Final = 15.0
STATUS_S: Final = 1.0
HEARD_MS: Final = 3_000
"""Longest silence, ms, of a voter that counts as heard; each is asked about once a second."""
SEGMENT_MIB: Final = 1
"""Small, so that a few rounds fill several."""
RESERVE_MIB: Final = 8
LOOK_S: Final = 0.05
OPERATOR: Final = "operator@drill"


def hears_voters(pair: PairStatus) -> bool:
    """All voters of a pair have answered a member lately. A PLC's registers do so only a while after it connected."""
    ages = [one.answered_ms for one in pair.voters_seen.values()]
    return bool(ages) and all(age is not None and age < HEARD_MS for age in ages)


class Pair:
    """The pair of a drill: made, started, asked and ended here."""

    def __init__(self, ground: Ground, plcs: Mapping[str, int], voters: str = "witness", other: str = "") -> None:
        """
        Args:
            ground: made already.
            plcs: port of each PLC, at the address of this program; none: there is no gate either.
            voters: `witness`, three of them; or `plc`, two PLCs and a witness.
            other: adapters beside those of the PLCs, as the topology file has them.
        """
        self.witnesses = WITNESSES if voters == "witness" else WITNESSES[:1]
        self._voters = [f"witness:{one}" for one in self.witnesses]
        self._voters += [f"plc:{one}" for one in VOTERS] if voters == "plc" else []
        self.directory = directory = ground.directory
        self._hosts = {name: ground.hosts.get(name, ProcessHost()) for name in (*MEMBERS, *WITNESSES)}
        self.data = {name: ground.data.get(name, directory / name) for name in (*MEMBERS, *WITNESSES, GATE)}
        self._environment = ground.environment
        self._kept = KeptPorts(len(_PORT_NAMES))
        self._ports = dict(zip(_PORT_NAMES, self._kept.numbers, strict=True))
        self._adapters = (adapters(ground.own_address, plcs, self._ports[GATE]) if plcs else "") + other
        self.device_ports = (*plcs.values(), self._ports[GATE])
        """Ports of PLCs and the gate that members reach, at the address of this program."""
        self.topology = directory / "topology.toml"
        self.topology.write_text(self._topology())
        self.keys = self._make_keys()
        self.groups = {name: self._group(name) for name in (*self.witnesses, *MEMBERS)}
        if plcs:
            self.groups[GATE] = self._gate()
            write_tables(directory)

    def _endpoint(self, host: str, port: str) -> str:
        return f"tcp://{self._hosts[host].address}:{self._ports[port]}"

    def _topology(self) -> str:
        lines = ['cluster = "3f0c1c7a-1c1e-4c59-9f0e-0d6f2a9be001"']
        for name in self.witnesses:
            lines += ["[[witness]]", f'name = "{name}"', f'endpoint = "{self._endpoint(name, name)}"']
        voters = ", ".join(f'"{one}"' for one in self._voters)
        lines += ["[[node]]", f'id = "{NODE}"', f"voters = [{voters}]"]
        for name in MEMBERS:
            client, peer = self._endpoint(name, f"{name}.client"), self._endpoint(name, f"{name}.peer")
            lines.append(f'{name} = {{ client = "{client}", peer = ["{peer}"] }}')
        lines += ["[node.log]", f"segment_mib = {SEGMENT_MIB}", f"disk_reserve_mib = {RESERVE_MIB}"]
        return "\n".join(lines) + "\n" + self._adapters

    def _make_keys(self) -> Keys:
        """A pair of keys for each, everybody trusted by everybody; ours are returned."""
        directory = self.directory / "keys"
        names = {f"{NODE}[{one}]": one for one in MEMBERS} | {f"witness:{one}": one for one in WITNESSES}
        made = [Keys.new(directory / where, name) for name, where in names.items()]
        own = Keys.new(directory / "operator", OPERATOR)
        introduce(own, *made, role=AccessRole.ADMIN)
        return Keys.load(directory / "operator")

    def _group(self, name: str) -> Group:
        keys = ["--keys", str(self.directory / "keys" / name)]
        common = ["--topology", str(self.topology), "--data", str(self.data[name]), *keys]
        which = ["witness", "--name", name] if name in WITNESSES else ["node", "run", "--id", f"{NODE}[{name}]"]
        group = Group(name, [*which, *common], self.directory / f"{name}.log", self._hosts[name].within)
        group.environment.update(self._environment.get(name, {}))
        return group

    def _gate(self) -> Group:
        """The gate's process, beside this program: no fault is done to it."""
        common = ["--topology", str(self.topology), "--data", str(self.data[GATE])]
        return Group(GATE, ["gate", "--name", GATE, *common], self.directory / f"{GATE}.log")

    @property
    def lines(self) -> tuple[LineTo, LineTo]:
        """Endpoints at which clients reach the members."""
        primary, backup = (LineTo(self._endpoint(one, f"{one}.client"), f"{NODE}[{one}]") for one in MEMBERS)
        return primary, backup

    def start(self) -> None:
        """Start everything, write the first record, wait until both members are in the set.

        Raises:
            DrillError: somebody ended, or it took too long.
        """
        for group in self.groups.values():
            group.start()
        self.until("the primary begins the pair", self._is_begun, START_S)
        self.wait_healthy(START_S)

    def _is_begun(self) -> bool:
        try:
            self.ask("primary", "pair_init", timeout_s=5.0)
        except NodeRefused as refused:
            return refused.code == RefusalCode.NOT_NEW
        return True

    def end(self) -> None:
        """Every process is gone when this returns."""
        for name in self.groups:
            self.groups[name].kill()
        self._kept.close()

    def ask(self, member: str, what: str, *, timeout_s: float = STATUS_S) -> object:
        """A question on the member's own machine.

        Raises:
            ClientError, RuntimeFault: no answer, or no.
        """
        with connect(self.data[member], timeout_s=timeout_s, is_pinned=True) as client:
            return client.ask(what)

    def status(self, member: str) -> NodeStatus | None:
        """The member's present status; None: it does not answer."""
        if self.groups[member].is_running:
            with (
                contextlib.suppress(ClientError, RuntimeFault),
                connect(self.data[member], timeout_s=STATUS_S, is_pinned=True) as client,
            ):
                return client.status()
        return None

    def view(self, member: str) -> PairStatus | None:
        """The pair as a member shows it; None: it does not answer."""
        status = self.status(member)
        return None if status is None else status.pair

    def _brief(self, member: str) -> str:
        """The most telling fields of the member's status, in one line."""
        status = self.status(member)
        if status is None or status.pair is None:
            return f"  {member} shows nothing"
        told = {key: getattr(status.pair, key) for key in _TELLING} | {"admission": status.log.admission}
        return f"  {member} shows {told}"

    def acting(self) -> tuple[str, PairStatus] | None:
        """The member that leads, of the highest epoch if two believe so."""
        views = [(name, view) for name in MEMBERS if (view := self.view(name)) is not None]
        acting = [one for one in views if one[1].state in ("active", "solo")]
        return max(acting, key=lambda one: one[1].epoch, default=None)

    def healthy(self) -> tuple[str, PairStatus] | None:
        """Active member and its view if the other is ready, both are in the set, and both hear every voter."""
        acting = self.acting()
        if acting is None or acting[1].state != "active" or sorted(acting[1].members) != [0, 1]:
            return None
        other = self.view(other_of(acting[0]))
        is_whole = other is not None and other.state == "ready" and hears_voters(acting[1]) and hears_voters(other)
        return acting if is_whole else None

    def is_healthy(self) -> bool:
        """See `healthy`."""
        return self.healthy() is not None

    def wait_steady(self) -> None:
        """Wait until the pair stays healthy for a while: a fault while a member is out of the set would be two.

        Raises:
            DrillError: not in time.
        """

        def is_steady() -> bool:
            is_healthy = self.is_healthy()
            time.sleep(STEADY_S)
            return is_healthy and self.is_healthy()

        self.until("both members stay in the set under the load", is_steady, HEALTHY_S)

    def wait_healthy(self, within_s: float = HEALTHY_S) -> tuple[str, PairStatus]:
        """
        Returns:
            Who leads, of the look in which both were in the set.
        Raises:
            DrillError: not in time; shows what each member says.
        """
        found: list[tuple[str, PairStatus]] = []

        def is_healthy() -> bool:
            healthy = self.healthy()
            found.extend([] if healthy is None else [healthy])
            return bool(found)

        self.until("both members are in the set", is_healthy, within_s)
        return found[0]

    def hand_over(self, active: str) -> None:
        """Order the lead away from `active`, again while it is refused: a member may just have left the set.

        Raises:
            DrillError: not in time.
        """

        def is_done() -> bool:
            acting = self.acting()
            if acting is not None and acting[0] == active:
                self.ask(active, "switchover", timeout_s=SWITCH_S)
            return acting is not None

        self.until("the lead is handed over", is_done, HEALTHY_S)

    def until(self, what: str, condition: Callable[[], bool], within_s: float) -> None:
        """Wait for a condition; no answer counts as not yet.

        Raises:
            DrillError: not in time.
        """
        ends = time.monotonic() + within_s
        while time.monotonic() < ends:
            try:
                if condition():
                    return
            except (ClientError, RuntimeFault):
                pass
            time.sleep(LOOK_S)  # Other processes: nothing else tells.
        raise DrillError(f"waited {within_s:.0f} s in vain until {what}\n{self.tails()}")

    def tails(self) -> str:
        """Last log lines of every process, and the members' views."""
        shown = [self._brief(name) for name in MEMBERS]
        ended = [name for name in self.groups if name not in MEMBERS and not self.groups[name].is_running]
        return "\n".join([*shown, *(self.groups[name].tail() for name in (*MEMBERS, *ended))])


def other_of(member: str) -> str:
    return MEMBERS[1 - MEMBERS.index(member)]


_TELLING: Final = ("state", "cause", "epoch", "members", "end", "durable", "committed", "lease_left_ms", "cases")
_PORT_NAMES: Final = (GATE, *WITNESSES, *(f"{member}.{kind}" for member in MEMBERS for kind in ("client", "peer")))
