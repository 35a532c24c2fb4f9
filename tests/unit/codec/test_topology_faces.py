"""Faces in a topology: keys of a kind are judged by its struct, and changes of them by what they take."""

import msgspec

from albireo.codec.topology.changes import changes_of
from albireo.codec.topology.meaning import topology_hash
from albireo.codec.topology.topology import LoadedTopology, load_topology

NODE = """cluster = "6f1c2f7e-7e6a-4a0e-9d39-3f0d5d0f3a11"
[[node]]
id = "root"
endpoint = "tcp://10.0.0.1:5000"
"""
FACE = '[[node.face]]\nname = "desk"\nkind = "test"\nport = 7\n'


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    port: int
    words: tuple[str, ...] = ()
    is_loud: bool = False


def load(text: str) -> LoadedTopology:
    answer = load_topology("topology.toml", {"topology.toml": text}.__getitem__, {}, {"test": lambda: Settings})
    assert isinstance(answer, LoadedTopology), answer
    return answer


def test_keys_that_say_the_default_mean_nothing() -> None:
    plain, spelled = load(NODE + FACE), load(NODE + FACE + 'is_loud = false\nwords = []\nmember = ""\n')
    assert topology_hash(plain) == topology_hash(spelled) != topology_hash(load(NODE))
    (face,) = plain.topology.node[0].face
    assert face.settings == {"port": 7}


def test_a_changed_face_starts_anew_and_more_or_fewer_take_a_restart() -> None:
    old = load(NODE + FACE)
    (changed,) = changes_of(old, load(NODE + FACE + 'words = ["come in"]\n'))
    assert (changed.name, changed.started_anew, changed.restart) == ("desk.settings", ("desk",), ())
    (labelled,) = changes_of(old, load(NODE + FACE + 'label = "The desk"\n'))
    assert (labelled.name, labelled.started_anew, labelled.is_live) == ("desk.label", (), True)
    (added,) = changes_of(load(NODE), old)
    assert (added.what, added.how, added.name, added.restart) == ("face", "added", "desk", ("root",))
    (removed,) = changes_of(old, load(NODE))
    assert (removed.what, removed.how, removed.restart) == ("face", "removed", ("root",))
