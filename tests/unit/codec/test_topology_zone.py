"""Zone of the plant: one key of the topology, whose name one function reads."""

from datetime import UTC

import msgspec
import pytest

from albireo.codec.topology.changes import changes_of
from albireo.codec.topology.meaning import topology_hash
from albireo.codec.topology.mistakes import Mistake
from albireo.codec.topology.plan import plan_of
from albireo.codec.topology.topology import LoadedTopology, load_topology
from albireo.codec.topology.zone import ZONE_REMEDY, zone_named
from albireo.model.topology import find_place

PLANT = """cluster = "6f1c2f7e-7e6a-4a0e-9d39-3f0d5d0f3a11"
zone = "Europe/Vienna"
[[node]]
id = "root"
endpoint = "tcp://10.0.0.1:5000"
[[node.face]]
name = "desk"
kind = "test"
[[node]]
id = "root/north"
"""


class NoKeys(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Keys of a face that has none of its own."""


def read(zone: str) -> LoadedTopology | list[Mistake]:
    text = PLANT.replace('zone = "Europe/Vienna"', zone)
    return load_topology("topology.toml", {"topology.toml": text}.__getitem__, {}, {"test": lambda: NoKeys})


def load(zone: str = 'zone = "Europe/Vienna"') -> LoadedTopology:
    found = read(zone)
    assert isinstance(found, LoadedTopology), found
    return found


def test_without_the_key_it_is_utc_which_needs_no_list_of_zones() -> None:
    assert load("").topology.zone == "UTC" and zone_named("UTC") is UTC
    assert topology_hash(load("")) == topology_hash(load('zone = "UTC"')) != topology_hash(load())


@pytest.mark.parametrize(
    "name", ["Mars/Olympus", "Europe/Wien", "europe/vienna", "../../etc/passwd", "Europe", "", "\\u0000", "a" * 300]
)
def test_a_zone_that_nobody_knows_is_refused_with_its_line_and_a_remedy(name: str) -> None:
    found = read(f'zone = "{name}"')
    assert isinstance(found, list)
    (mistake,) = found
    assert (mistake.line, mistake.key_path) == (2, "zone")
    assert "no zone that this machine knows" in mistake.text and "Europe/Vienna" in mistake.remedy
    assert len(str(mistake)) < 250
    with pytest.raises(ValueError, match="no zone") as caught:
        zone_named(name.replace("\\u0000", "\0"))
    assert (str(caught.value), ZONE_REMEDY) == (mistake.text, mistake.remedy), "the same words everywhere"


def test_a_running_node_takes_up_another_zone_and_its_faces_start_anew() -> None:
    old, new = load(""), load()
    told = [(one.what, one.name, one.node, one.old, one.new, one.restart) for one in changes_of(old, new)]
    assert told == [
        ("setting", "zone", "root", None, "Europe/Vienna", ()),
        ("setting", "zone", "root/north", None, "Europe/Vienna", ()),
    ]
    root, north = (plan_of(old, new, find_place(old.topology, place)) for place in ("root", "root/north"))
    assert (len(root.taken), root.refused, root.started_anew) == (1, (), ("desk",))
    assert (len(north.taken), north.refused, north.started_anew) == (1, (), ())
