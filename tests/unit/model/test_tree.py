"""The tree of a topology: parents, children, subtrees and neighbours, against what the ids say one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albireo.model.topology import MemberEndpoints, NodeConfig, Topology, UplinkSettings
from albireo.model.tree.nodes import (
    ancestors,
    children,
    dialled,
    find_node,
    is_below,
    neighbours,
    parent_places,
    subtree,
)

CLUSTER = "6f1c2f7e-7e6a-4a0e-9d39-3f0d5d0f3a11"


def member(number: int) -> MemberEndpoints:
    return MemberEndpoints(client=f"tcp://10.0.0.{number}:5000", peer=(f"tcp://10.1.0.{number}:5001",))


def tree(*nodes: NodeConfig) -> Topology:
    return Topology(cluster=CLUSTER, node=nodes)


ROOT = NodeConfig(id="root", primary=member(1), backup=member(2))
NORTH = NodeConfig(id="root/north", endpoint="tcp://10.0.0.10:5000")
SOUTH = NodeConfig(id="root/south", endpoint="tcp://10.0.0.20:5000")
HALL = NodeConfig(id="root/north/hall", endpoint="tcp://10.0.0.11:5000")
NORTHERN = NodeConfig(id="root/northern")
SITES = tree(HALL, SOUTH, ROOT, NORTHERN, NORTH)


def ids(nodes: tuple[NodeConfig, ...]) -> list[str]:
    return [node.id for node in nodes]


def test_a_child_dials_both_members_of_a_pair_under_the_names_of_their_keys() -> None:
    assert [(place.name, place.endpoint) for place in parent_places(SITES, "root/north")] == [
        ("root[primary]", "tcp://10.0.0.1:5000"),
        ("root[backup]", "tcp://10.0.0.2:5000"),
    ]


def test_a_child_dials_a_parent_that_stands_alone_at_its_endpoint() -> None:
    (place,) = parent_places(SITES, "root/north/hall")
    assert (place.name, place.endpoint) == ("root/north", "tcp://10.0.0.10:5000")


def test_a_child_dials_the_addresses_that_it_names_itself() -> None:
    behind = UplinkSettings(dial=("tcp://gateway:7001", "tcp://gateway:7002"))
    topology = tree(ROOT, NodeConfig(id="root/north", endpoint=NORTH.endpoint, uplink=behind))
    assert dialled(topology, "root/north") == {
        "root[primary]": "tcp://gateway:7001",
        "root[backup]": "tcp://gateway:7002",
    }
    assert dialled(SITES, "root/north/hall") == {"root/north": "tcp://10.0.0.10:5000"}
    assert dialled(SITES, "root") == {}


def test_the_root_dials_nobody() -> None:
    assert parent_places(SITES, "root") == ()
    assert neighbours(SITES, "root").parent == ()
    assert ancestors("root") == ()


def test_a_subtree_has_each_node_before_what_is_below_it_and_never_a_name_that_only_begins_alike() -> None:
    assert ids(subtree(SITES, "root")) == ["root", "root/south", "root/northern", "root/north", "root/north/hall"]
    assert ids(subtree(SITES, "root/north")) == ["root/north", "root/north/hall"]
    assert ids(subtree(SITES, "root/northern")) == ["root/northern"]
    assert ids(children(SITES, "root/north")) == ["root/north/hall"]
    assert not is_below("root/northern", "root/north") and not is_below("root", "root")


def test_neighbours_are_the_places_above_and_the_nodes_directly_below() -> None:
    found = neighbours(SITES, "root/north")
    assert [place.name for place in found.parent] == ["root[primary]", "root[backup]"]
    assert ids(found.children) == ["root/north/hall"]


@pytest.mark.parametrize("wanted", ["", "root/east", "root[primary]", "north"])
def test_a_node_that_is_not_there_is_no_answer(wanted: str) -> None:
    with pytest.raises(LookupError, match="no node"):
        find_node(SITES, wanted)
    with pytest.raises(LookupError, match="no node"):
        neighbours(SITES, wanted)


@st.composite
def any_tree(draw: st.DrawFn) -> Topology:
    """Nodes below one root, in any order of the file."""
    known = ["root"]
    for number in range(draw(st.integers(0, 12))):
        above = draw(st.sampled_from([one for one in known if one.count("/") < 7]))
        known.append(f"{above}/n{number}")
    return tree(*(NodeConfig(id=one, endpoint=f"tcp://h-{one}:1") for one in draw(st.permutations(known))))


@given(any_tree())
def test_the_parts_of_any_tree_agree(topology: Topology) -> None:
    """Oracle: a node is below another one when the way up from it, parent by parent, passes there."""
    up = {node.id: node.parent for node in topology.node}

    def way_up(node_id: str) -> list[str]:
        return [up[node_id], *way_up(up[node_id])] if up[node_id] else []

    for node in topology.node:
        assert list(ancestors(node.id)) == way_up(node.id)
        below = {one.id for one in topology.node if node.id in way_up(one.id)}
        assert below == {one.id for one in topology.node if is_below(one.id, node.id)}
        found = ids(subtree(topology, node.id))
        assert found[0] == node.id and sorted(found) == sorted(below | {node.id})
        assert all(found.index(up[one]) < found.index(one) for one in found[1:])
        assert {one.id for one in children(topology, node.id)} == {one for one in up if up[one] == node.id}
        assert [place.node.id for place in neighbours(topology, node.id).parent] == way_up(node.id)[:1]
