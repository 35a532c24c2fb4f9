"""Boot of voters below: which place of a topology votes, for whom, and where it dials."""

from pathlib import Path
from typing import Any

import pytest

from albireo.codec.topology.adapter_kind import AdapterKind
from albireo.codec.topology.topology import LoadedTopology, load_topology
from albireo.model.topology import find_place
from albireo.node.boot import specs_of

SITES = """
cluster = "6f1c2f7e-7e6a-4a0e-9d39-3f0d5d0f3a11"
[[node]]
id = "root"
primary = { client = "tcp://10.0.0.1:5000", peer = ["tcp://10.0.0.1:5001"] }
backup = { client = "tcp://10.0.0.2:5000", peer = ["tcp://10.0.0.2:5001"] }
voters = ["node:root/north/hall", "node:root/south[backup]", "node:root/north"]
[[node]]
id = "root/north"
endpoint = "tcp://10.0.0.10:5000"
[[node]]
id = "root/north/hall"
[[node]]
id = "root/south"
primary = { client = "tcp://10.0.0.3:5000", peer = ["tcp://10.0.0.3:5001"] }
backup = { client = "tcp://10.0.0.4:5000", peer = ["tcp://10.0.0.4:5001"] }
voters = ["node:root/south/shaft"]
[[node]]
id = "root/south/shaft"
[[node]]
id = "root/west"
"""


def votes(place: str) -> dict[str, Any] | None:
    """Arguments of the place's voter."""
    loaded = load_topology("topology.toml", {"topology.toml": SITES}.__getitem__, {"host": AdapterKind(needs_url=None)})
    assert isinstance(loaded, LoadedTopology), loaded
    specs = specs_of(loaded, find_place(loaded.topology, place), Path("/keys"))
    voters = [spec for spec in specs if spec.name == "voter"]
    assert all(spec.stage == 0 and not spec.is_essential for spec in voters)
    return dict(voters[0].arguments) if voters else None


@pytest.mark.parametrize("place", ["root/north", "root/north/hall", "root/south[backup]"])
def test_a_place_that_a_pair_above_lists_votes_for_it_at_both_members(place: str) -> None:
    arguments = votes(place)
    assert arguments is not None
    assert (arguments["voter"], arguments["keys"]) == (f"node:{place}", "/keys")
    (pair,) = arguments["pairs"]
    assert (pair["node"], pair["cluster"].partition("/")[2]) == ("root", "root")
    assert [(one["place"], one["endpoints"]) for one in pair["members"]] == [
        ("root[primary]", ("tcp://10.0.0.1:5000",)),
        ("root[backup]", ("tcp://10.0.0.2:5000",)),
    ]


@pytest.mark.parametrize("place", ["root[primary]", "root/south[primary]", "root/west"])
def test_no_other_place_votes(place: str) -> None:
    """Not the other member of a pair below either: the vote belongs to one place and its disk."""
    assert votes(place) is None


def test_a_place_votes_for_each_pair_that_lists_it() -> None:
    sites = SITES.replace('"node:root/north"]', '"node:root/south/shaft"]')
    loaded = load_topology("topology.toml", {"topology.toml": sites}.__getitem__, {"host": AdapterKind()})
    assert isinstance(loaded, LoadedTopology), loaded
    specs = specs_of(loaded, find_place(loaded.topology, "root/south/shaft"))
    (arguments,) = [dict(spec.arguments) for spec in specs if spec.name == "voter"]
    pairs: Any = arguments["pairs"]
    assert [pair["node"] for pair in pairs] == ["root", "root/south"]
