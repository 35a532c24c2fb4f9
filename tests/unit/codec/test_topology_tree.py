"""The tree in a topology file: each mistake in it is told with its place and its remedy."""

import pytest

from albireo.codec.topology.item_table import AdapterKind
from albireo.codec.topology.mistakes import Mistake
from albireo.codec.topology.topology import LoadedTopology, load_topology

CLUSTER = 'cluster = "6f1c2f7e-7e6a-4a0e-9d39-3f0d5d0f3a11"\n'
WITNESS = '[[witness]]\nname = "w1"\nendpoint = "tcp://10.0.0.9:5000"\n'
ROOT = """[[node]]
id = "root"
primary = { client = "tcp://10.0.0.1:5000", peer = ["tcp://10.1.0.1:5001"] }
backup = { client = "tcp://10.0.0.2:5000", peer = ["tcp://10.1.0.2:5001"] }
voters = ["witness:w1"]
"""
NORTH = '[[node]]\nid = "root/north"\nendpoint = "tcp://10.0.0.10:5000"\n'
HALL = '[[node]]\nid = "root/north/hall"\n'
SOUTH = """[[node]]
id = "root/south"
primary = { client = "tcp://10.0.0.3:5000", peer = ["tcp://10.1.0.3:5001"] }
backup = { client = "tcp://10.0.0.4:5000", peer = ["tcp://10.1.0.4:5001"] }
voters = ["witness:w1"]
"""
WHOLE = CLUSTER + WITNESS + ROOT + NORTH + HALL + SOUTH
KINDS = {"host": AdapterKind(needs_url=False, needs_items=False)}


def load(text: str) -> LoadedTopology | list[Mistake]:
    return load_topology("topology.toml", lambda _: text, KINDS)


def mistakes(text: str) -> list[Mistake]:
    answer = load(text)
    assert isinstance(answer, list), "the file has no mistake"
    return answer


def changed(old: str, new: str) -> str:
    assert old in WHOLE
    return WHOLE.replace(old, new, 1)


def test_a_tree_with_pairs_at_two_levels_is_loaded_without_a_word() -> None:
    answer = load(WHOLE)
    assert isinstance(answer, LoadedTopology) and answer.warnings == ()


@pytest.mark.parametrize(
    ("old", "new", "path", "said", "remedy"),
    [
        ('"root/south"', '"root/north"', "node[3].id", "root/north is there twice, first as node[1]", "of its own"),
        ('"root/north/hall"', '"root/nord/hall"', "node[2].id", "root/nord, which is not there", "'root/north'"),
        ('"root/south"', '"south"', "node[3].id", "a second root beside root", "Name it root/south"),
        ('id = "root"\n', 'id = "top"\n', "node[1].id", "hangs below root, which is not there", "Add a [[node]]"),
        ('endpoint = "tcp://10.0.0.10:5000"\n', "", "node[1]", "no address they could connect to", "endpoint ="),
        ("tcp://10.0.0.10:5000", "tcp://*:5000", "node[1].endpoint", "tcp://*:5000 is no address", "reach it"),
        ("tcp://10.0.0.10:5000", "tcp://[::]:5000", "node[1].endpoint", "tcp://[::]:5000 is no address", "reach it"),
        ("tcp://10.0.0.2:5000", "tcp://0.0.0.0:5000", "node[0].backup.client", "root[backup] has nodes", "reach it"),
        ("backup = ", "# ", "node[0]", "the pair root has no backup", "Add backup"),
        ("tcp://10.0.0.10:5000", "tcp://10.0.0.1:5000", "node[1].endpoint", "taken already by", "its own port"),
        ("tcp://10.0.0.4:5000", "tcp://10.0.0.3:5000", "node[3].backup.client", "taken already by", "its own port"),
        ("tcp://10.0.0.9:5000", "tcp://10.0.0.10:5000", "witness[0].endpoint", "taken already by", "its own port"),
    ],
)  # fmt: skip
def test_each_mistake_of_the_tree_is_told(old: str, new: str, path: str, said: str, remedy: str) -> None:
    told = mistakes(changed(old, new))
    assert any(
        one.key_path == path and said in one.text and remedy in one.remedy and one.line and not one.is_warning
        for one in told
    ), told


def test_a_node_with_nothing_below_it_may_listen_at_every_interface() -> None:
    answer = load(changed('id = "root/north/hall"\n', 'id = "root/north/hall"\nendpoint = "tcp://*:5000"\n'))
    assert isinstance(answer, LoadedTopology)
