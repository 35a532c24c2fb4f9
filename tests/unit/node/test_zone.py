"""The zone of a topology reaches all that show times: CORE, which tells it, and the faces."""

from albireo.codec.topology.topology import LoadedTopology, load_topology
from albireo.face.kinds import settings_of_kinds
from albireo.model.topology import find_place
from albireo.node.boot import specs_of

PLANT = """cluster = "6f1c2f7e-7e6a-4a0e-9d39-3f0d5d0f3a11"
zone = "Asia/Kathmandu"
[[node]]
id = "root"
[[node.face]]
name = "page"
kind = "web"
[[node.face]]
name = "night"
kind = "notify"
rules = "notify.toml"
"""


def test_core_and_every_face_start_with_the_zone() -> None:
    loaded = load_topology("topology.toml", {"topology.toml": PLANT}.__getitem__, {}, settings_of_kinds())
    assert isinstance(loaded, LoadedTopology), loaded
    told = {
        one.name: one.arguments["zone"]
        for one in specs_of(loaded, find_place(loaded.topology, "root"))
        if one.name == "core" or one.name.startswith("face.")
    }
    assert told == dict.fromkeys(("core", "face.page", "face.night"), "Asia/Kathmandu")
