"""A chain of nodes as real processes, any of them a pair, from the root to a site at the bottom.

    producers --> site's members --> ... --> root's members <-- orders to the site's PLC

Everything lies in one directory that is made for it:

    topology.toml   plc.csv   keys/NAME/   root/ root.primary/ root.backup/ north/ ... w1/   NAME.log
"""

import contextlib
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from albireo.client import Client, ClientError, NodeRefused, connect
from albireo.drill.ground import DrillError
from albireo.drill.pair import hears_voters
from albireo.drill.plcs import GUARDED, POLL_MS
from albireo.drill.ports import KeptPorts
from albireo.drill.process import Group
from albireo.drill.tree.shapes import ADAPTER, WITNESS, TreeShape
from albireo.machine.pair.events import ACTING, STANDS, State
from albireo.model.access import AccessRole
from albireo.model.refusal import RefusalCode
from albireo.model.status import PairStatus
from albireo.plant.tunnel.plc.pair_area import MAILBOX_ADDRESS, VOTER_ADDRESS
from albireo.plant.tunnel.plc.plcs import PLCS
from albireo.runtime.errors import RuntimeFault
from albireo.runtime.link.keys import Keys, introduce
from albireo.runtime.link.lines import LineTo

OUTPUT: Final = "out"
"""Item of the site that the root orders to be written."""
MEMBERS: Final = ("primary", "backup")
OPERATOR: Final = "operator@drill"
START_S: Final = 120.0
"""A dozen processes that import numpy, on two busy cores."""
HEALTHY_S: Final = 180.0
LOOK_S: Final = 0.2
"""Each look makes connections of its own, and a busy machine is what makes members leave their set."""
STATUS_S: Final = 1.0
SEGMENT_MIB: Final = 4
_OUT_OF_SET: Final = frozenset({State.JOINING, State.CATCHING_UP})
"""States of a member that may not take over, unless it joins because it stands for the lead."""


class TreeNodes:
    """The nodes of a drill: made, started, asked and ended here."""

    def __init__(self, directory: Path, shape: TreeShape, plc_port: int) -> None:
        """`plc_port`: port of the PLC that has the site's output, on this machine."""
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._shape = shape
        self.levels = shape.levels
        self.site = shape.site
        self.members = {node: _names_of(node, is_pair=node in shape.voters) for node in shape.levels}
        """Names of each node's members, the primary first; of one that is not a pair, one name."""
        self.node_of = {name: node for node, names in self.members.items() for name in names}
        self._kept = KeptPorts(2 * len(self.node_of) + 1)
        ports = iter(self._kept.numbers)
        self._ends = {name: [f"tcp://127.0.0.1:{next(ports)}" for _ in range(2)] for name in self.node_of}
        self._witness_end = f"tcp://127.0.0.1:{next(ports)}"
        self._places = {
            name: f"{node}[{member}]" if node in shape.voters else node
            for node, names in self.members.items()
            for name, member in zip(names, MEMBERS, strict=False)
        }
        self.keys = self._make_keys()
        self._topology = directory / "topology.toml"
        self._topology.write_text(self._text(plc_port), encoding="utf-8")
        self._write_table()
        has_witness = any(f"witness:{WITNESS}" in voters for voters in shape.voters.values())
        self.groups = {name: self._group(name) for name in (*([WITNESS] if has_witness else []), *self.node_of)}

    def _make_keys(self) -> Keys:
        directory = self._directory / "keys"
        names = {**self._places, WITNESS: f"witness:{WITNESS}"}
        made = [Keys.new(directory / where, name) for where, name in names.items()]
        introduce(Keys.new(directory / "operator", OPERATOR), *made, role=AccessRole.ADMIN)
        return Keys.load(directory / "operator")

    def _text(self, plc_port: int) -> str:
        lines = ['cluster = "3f0c1c7a-1c1e-4c59-9f0e-0d6f2a9be001"']
        lines += ["[[witness]]", f'name = "{WITNESS}"', f'endpoint = "{self._witness_end}"']
        for node, names in self.members.items():
            lines += ["[[node]]", f'id = "{node}"']
            if node in self._shape.voters:
                lines.append(f"voters = {list(self._shape.voters[node])}")
                for name, member in zip(names, MEMBERS, strict=True):
                    client, peer = self._ends[name]
                    lines.append(f'{member} = {{ client = "{client}", peer = ["{peer}"] }}')
            else:
                lines.append(f'endpoint = "{self._ends[names[0]][0]}"')
            lines += ["[node.log]", f"segment_mib = {SEGMENT_MIB}"]
        lines += [
            "[[node.adapter]]",
            f'name = "{ADAPTER}"',
            'kind = "modbus"',
            f'url = "tcp://127.0.0.1:{plc_port}"',
            'items = "plc.csv"',
            f"poll_ms = {POLL_MS}",
            "timeout_ms = 500",
            "backoff_min_ms = 100",
            "backoff_max_ms = 500",
            'guard = "plc"',
            f"mailbox_address = {MAILBOX_ADDRESS}",
        ]
        if f"plc:{ADAPTER}" in self._shape.voters.get(self.site, ()):
            lines += [f"voter_address = {VOTER_ADDRESS}"]
        return "\n".join(lines) + "\n"

    def _write_table(self) -> None:
        ((target, output),) = [one for one in enumerate(PLCS[ADAPTER].writable, 1) if one[1].name == GUARDED]
        (self._directory / "plc.csv").write_text(
            "name,kind,address,type,writable,target,minimum,maximum\n"
            f"{OUTPUT},holding,{output.address},uint16,true,{target},30,100\n",
            encoding="utf-8",
        )

    def _group(self, name: str) -> Group:
        which = ["witness", "--name", name] if name == WITNESS else ["node", "run", "--id", self._places[name]]
        places = ["--topology", str(self._topology), "--data", str(self._directory / name)]
        keys = ["--keys", str(self._directory / "keys" / name)]
        return Group(name, [*which, *places, *keys], self._directory / f"{name}.log")

    def line(self, name: str) -> LineTo:
        """Where clients reach one member."""
        return LineTo(self._ends[name][0], self._places[name])

    def lines(self, node: str) -> list[LineTo]:
        """Where clients reach a node."""
        return [self.line(name) for name in self.members[node]]

    def connect(self, node: str, timeout_s: float) -> Client:
        """Raises ClientError: nobody who acts has answered."""
        return connect(self.lines(node), keys=self.keys, timeout_s=timeout_s)

    def start(self) -> None:
        """Start everything, begin the pairs, wait until both members of each are in its set.

        Raises:
            DrillError: it took too long.
        """
        for group in self.groups.values():
            group.start()
        for node in self._shape.voters:
            primary = self.members[node][0]
            self.until(f"{primary} begins its pair", partial(self._is_begun, primary), START_S)
        self.wait_healthy(START_S)

    def _is_begun(self, primary: str) -> bool:
        if not self._hears_voters(primary):  # A voter that comes later stays empty, and the majority is a smaller one.
            return False
        try:
            self.ask(primary, "pair_init", timeout_s=5.0)
        except NodeRefused as refused:
            return refused.code == RefusalCode.NOT_NEW
        return True

    def end(self) -> None:
        """Every process is gone when this returns."""
        for group in self.groups.values():
            group.kill()
        self._kept.close()

    def ask(self, name: str, what: str, *, timeout_s: float = STATUS_S) -> Any:
        """A question to one member on its own machine.

        Raises:
            ClientError, RuntimeFault: no answer, or no.
        """
        with self._client(name, timeout_s) as client:
            return client.ask(what)

    def _client(self, name: str, timeout_s: float = STATUS_S) -> Client:
        return connect(self._directory / name, timeout_s=timeout_s, is_pinned=True)

    def _pair_of(self, name: str) -> PairStatus | None:
        """The pair as a member shows it; None: it does not answer."""
        if self.groups[name].is_running:
            with contextlib.suppress(ClientError, RuntimeFault), self._client(name) as client:
                return client.status().pair
        return None

    def _hears_voters(self, name: str) -> bool:
        """All voters of its pair have answered this member lately."""
        pair = self._pair_of(name)
        return pair is not None and hears_voters(pair)

    def acting(self, node: str) -> str:
        """The member of a pair that leads, of the highest epoch if two believe so; empty: none says so."""
        seen = {name: self._pair_of(name) for name in self.members[node]}
        acting = [(one.epoch, name) for name, one in seen.items() if one is not None and one.state in ACTING]
        return max(acting, default=(0, ""))[1]

    def state(self, name: str) -> str:
        """State of a member of a pair as it shows it; empty: it does not answer."""
        pair = self._pair_of(name)
        return "" if pair is None else pair.state

    def takes_over(self, name: str) -> bool | None:
        """Whether a member whose mate was killed leads now. False: it may not, being out of the set; None: not yet."""
        pair = self._pair_of(name)
        if pair is None:
            return None
        if pair.state in ACTING:
            return True
        is_out = pair.state in _OUT_OF_SET and (pair.state, pair.cause) != (State.JOINING, STANDS)
        return False if is_out else None

    def mate(self, name: str) -> str:
        """The other member of its pair."""
        (other,) = set(self.members[self.node_of[name]]) - {name}
        return other

    def is_healthy(self) -> bool:
        """Both members of each pair are in its set, and hear all its voters."""
        for node in self._shape.voters:
            states = sorted(self.state(name) for name in self.members[node])
            if states != ["active", "ready"] or not all(map(self._hears_voters, self.members[node])):
                return False
        return True

    def wait_healthy(self, within_s: float = HEALTHY_S) -> None:
        """Raises DrillError: not in time."""
        self.until("both members of each pair are in its set", self.is_healthy, within_s)

    def until(self, what: str, is_so: Callable[[], bool], within_s: float) -> None:
        """Look until it is so; no answer counts as not yet.

        Raises:
            DrillError: not in time.
        """
        ends = time.monotonic() + within_s
        while time.monotonic() < ends:
            with contextlib.suppress(ClientError, RuntimeFault):
                if is_so():
                    return
            time.sleep(LOOK_S)  # Other processes: nothing else tells.
        raise DrillError(f"waited {within_s:.0f} s in vain until {what}\n{self.tails()}")

    def tails(self) -> str:
        """Last telling log lines of every process."""
        return "\n".join(group.tail() for group in self.groups.values())


def _names_of(node: str, *, is_pair: bool) -> tuple[str, ...]:
    name = node.rpartition("/")[2]
    return tuple(f"{name}.{one}" for one in MEMBERS) if is_pair else (name,)
