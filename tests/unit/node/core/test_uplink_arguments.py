"""What the topology says of the link to the node above, on its way to the machines of CORE."""

import msgspec

from albireo.codec.topology.topology import LoadedTopology, load_topology
from albireo.machine.desk.feeds import Feeds
from albireo.machine.fold.folds import Folds
from albireo.machine.kernel.named import HISTORY, TOPICS
from albireo.model.topology import Place
from albireo.node.boot import specs_of
from albireo.node.core.arguments import CoreArguments, root_config

TOPOLOGY = """cluster = "3f0c1c7a-1c1e-4c59-9f0e-0d6f2a9be001"
[[node]]
id = "root"
endpoint = "tcp://127.0.0.1:5000"
[[node]]
id = "root/north"
endpoint = "tcp://127.0.0.1:5001"
[node.uplink]
rate_mib_per_s = 0.5
"""


def feeds_of(node: str) -> Feeds:
    loaded = load_topology("t.toml", {"t.toml": TOPOLOGY}.__getitem__, {})
    assert isinstance(loaded, LoadedTopology)
    place = next(Place(node=one) for one in loaded.topology.node if one.id == node)
    core = next(one for one in specs_of(loaded, place) if one.name == "core")
    arguments = msgspec.convert(core.arguments, CoreArguments)
    return Feeds(root_config(arguments, b"L" * 16, bytes, 0), Folds(), lambda _: None, is_complete=True)


def test_the_rate_of_the_uplink_is_that_of_the_parent_which_follows_the_log() -> None:
    feeds = feeds_of("root/north")
    for _ in range(2):
        rates = {name: one.bytes_per_s for name, one in feeds.leader._named.items()}
        assert rates == {"history": 0, "topics": 0, "root": 512 << 10}
        feeds.restored(Folds(), is_complete=True)
    assert feeds_of("root").leader._named == {"history": HISTORY, "topics": TOPICS}
