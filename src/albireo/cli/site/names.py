"""The names of hosts in a topology, and what they stand for on this machine."""

import re
from typing import Final

import msgspec

from albireo.model.instant import SECOND
from albireo.model.name_status import NameStatus
from albireo.model.topology import Topology
from albireo.runtime.clock import boot_ns
from albireo.runtime.link.names import NAMES, is_number

LOOK_S: Final = 1.0
"""Longest wait for all of them together."""
_HOST: Final = re.compile(r'"tcp://([^][/:*"]+)')


def names_here(topology: Topology) -> dict[str, NameStatus]:
    """Every name of a host in a topology, all looked up at the same time."""
    hosts = sorted({one for one in _HOST.findall(msgspec.json.encode(topology).decode()) if not is_number(one)})
    ends = boot_ns() + LOOK_S * SECOND
    for wait in (False, True):
        for host in hosts:
            NAMES.addresses(host, max(0.0, (ends - boot_ns()) / SECOND) if wait else 0.0)
    asked = NAMES.asked()
    return {host: asked[host] for host in hosts if host in asked}
