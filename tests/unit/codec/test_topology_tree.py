"""The tree in a topology file: each mistake in it is told with its place and its remedy."""

import pytest

from albireo.codec.topology.adapter_kind import AdapterKind
from albireo.codec.topology.mistakes import Mistake
from albireo.codec.topology.topology import LoadedTopology, load_topology
from albireo.model.tree.nodes import asked_of_parent, wanted_from_above

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


def test_a_child_holds_back_a_month_and_wants_its_own_subtree_unless_it_says_otherwise() -> None:
    answer = load(WHOLE)
    assert isinstance(answer, LoadedTopology)
    uplink = answer.topology.node[1].uplink
    assert (uplink.hold_gib, uplink.hold_days, uplink.rate_mib_per_s, uplink.state) == (8.0, 30.0, 0.0, "own")


@pytest.mark.parametrize(
    ("state", "wanted"),
    [
        ('"own"', []),
        ('"tree"', ["root", "root/south"]),
        ('["root/south"]', ["root/south"]),
    ],
)
def test_a_child_wants_nothing_the_whole_tree_or_parts_of_it_from_above(state: str, wanted: list[str]) -> None:
    answer = load(changed(HALL, f"uplink = {{ hold_days = 7, state = {state} }}\n{HALL}"))
    assert isinstance(answer, LoadedTopology)
    assert [node.id for node in wanted_from_above(answer.topology, "root/north")] == wanted
    assert answer.topology.node[1].uplink.hold_days == 7


def test_a_node_between_asks_its_parent_for_what_a_node_below_it_wants() -> None:
    answer = load(changed(HALL, f'{HALL}uplink = {{ state = "tree" }}\n'))
    assert isinstance(answer, LoadedTopology)
    asked = {node.id: [one.id for one in asked_of_parent(answer.topology, node.id)] for node in answer.topology.node}
    assert asked == {
        "root": [],
        "root/north": ["root", "root/south"],
        "root/north/hall": ["root", "root/north", "root/south"],
        "root/south": [],
    }


@pytest.mark.parametrize(
    ("node", "uplink", "path", "said", "remedy"),
    [
        (ROOT, "{ hold_gib = 9 }", "node[0].uplink", "root is the root", "Take"),
        (NORTH, "{ hold_gib = -1 }", "node[1].uplink.hold_gib", ">= 0", "Change"),
        (NORTH, '{ hold_days = "7" }', "node[1].uplink.hold_days", "a number", "quotes"),
        (NORTH, "{ hold_weeks = 7 }", "node[1].uplink.hold_weeks", "not known", "hold_days"),
        (NORTH, '{ state = "all" }', "node[1].uplink.state", "'all'", "Change"),
        (NORTH, "{ state = [] }", "node[1].uplink.state", "length >= 1", "Change"),
        (NORTH, '{ state = ["root/sout"] }', "node[1].uplink.state[0]", "root/sout is not there", "'root/south'"),
        (NORTH, '{ state = ["root/north"] }', "node[1].uplink.state[0]", "subtree of root/north", '"own"'),
        (NORTH, '{ state = ["root/north/hall"] }', "node[1].uplink.state[0]", "subtree of root/north", '"own"'),
        (NORTH, '{ state = ["root"] }', "node[1].uplink.state[0]", "the whole tree", '"tree"'),
        (NORTH, '{ state = ["root/south", "root/south"] }', "node[1].uplink.state[1]", "twice", "once"),
        (NORTH, '{ dial = ["tcp://gate:1"] }', "node[1].uplink.dial", "root has 2", "root[primary], root[backup]"),
        (NORTH, '{ dial = ["tcp://gate:0", "tcp://gate:2"] }', "node[1].uplink.dial[0]", "port 0", "tcp://"),
    ],
)  # fmt: skip
def test_each_mistake_of_a_link_upward_is_told(node: str, uplink: str, path: str, said: str, remedy: str) -> None:
    (one,) = mistakes(changed(node, f"{node}uplink = {uplink}\n"))
    assert (one.key_path, one.is_warning) == (path, False) and one.line
    assert said in one.text and remedy in one.remedy


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


def test_a_cycle_can_not_be_written_for_a_node_hangs_below_the_one_that_its_id_says() -> None:
    node = '[[node]]\nid = "{}"\nendpoint = "tcp://10.0.0.1:{}"\n'
    nodes = node.format("a/b", 5000) + node.format("b/a", 5001)
    told = mistakes('cluster = "6f1c2f7e-7e6a-4a0e-9d39-3f0d5d0f3a11"\n' + nodes)
    assert {"a/b hangs below a, which is not there", "b/a hangs below b, which is not there"} <= {
        one.text for one in told
    }, told


def test_a_node_with_nothing_below_it_may_listen_at_every_interface() -> None:
    answer = load(changed('id = "root/north/hall"\n', 'id = "root/north/hall"\nendpoint = "tcp://*:5000"\n'))
    assert isinstance(answer, LoadedTopology)


VOTER = 'voters = ["{}"]'


@pytest.mark.parametrize("voter", ["node:root/north", "node:root/north/hall", "node:root/south[backup]"])
def test_a_place_below_votes_for_a_pair(voter: str) -> None:
    answer = load(changed(VOTER.format("witness:w1"), VOTER.format(voter)))
    assert isinstance(answer, LoadedTopology)
    assert answer.topology.node[0].node_voters == (voter,)
    assert answer.warnings == ()


@pytest.mark.parametrize(
    ("old", "new", "path", "said", "remedy"),
    [
        (ROOT, "node:root/nord", "node[0].voters[0]", "node:root/nord is not there", "'root/north'"),
        (ROOT, "node:root", "node[0].voters[0]", "can't vote for itself", "below it"),
        (ROOT, "node:root[primary]", "node[0].voters[0]", "can't vote for itself", "below it"),
        (SOUTH, "node:root", "node[3].voters[0]", "stands above root/south", "below root/south"),
        (SOUTH, "node:root/north", "node[3].voters[0]", "does not stand below root/south", "above it"),
        (ROOT, "node:root/south", "node[0].voters[0]", "through one of its members", '"node:root/south[primary]"'),
        (ROOT, "node:root/north[backup]", "node[0].voters[0]", "root/north is no pair", '"node:root/north"'),
        (ROOT, "node:root/north[third]", "node[0].voters[0]", "form", "node:root/north"),
        (ROOT, "node:", "node[0].voters[0]", "form", "node:root/north"),
        (ROOT, "node:root" + 6 * ("/" + 30 * "n"), "node[0].voters[0]", "not there", "Known are: root/north"),
        (ROOT, "node:root" + 7 * ("/" + 30 * "n"), "node[0].voters[0]", "length <= 200", "Change"),
        (ROOT, 'node:root/south[primary]", "witness:w1", "node:root/south[backup]', "node[0].voters[2]",
         "a second vote of the node root/south", "one member"),
        (ROOT, 'node:root/north", "witness:w1', "node[0].voters", "2 voters: an even number", "1, 3 or 5"),
        (ROOT, 'node:root/north", "witness:w1", "node:root/north', "node[0].voters[2]", "votes twice", "once"),
        (ROOT, '", "'.join(f"node:root/n{at}" for at in range(7)), "node[0].voters", "length <= 5", "Change"),
    ],
)  # fmt: skip
def test_each_mistake_of_a_voter_below_is_told(old: str, new: str, path: str, said: str, remedy: str) -> None:
    told = mistakes(changed(old, old.replace(VOTER.format("witness:w1"), VOTER.format(new))))
    assert any(
        one.key_path == path and said in one.text and remedy in one.remedy and one.line and not one.is_warning
        for one in told
    ), told


def test_a_node_that_stands_alone_has_no_voters_below_either() -> None:
    (one,) = [
        one for one in mistakes(changed(NORTH, f"{NORTH}voters = ['node:root/north/hall']\n")) if not one.is_warning
    ]
    assert one.key_path == "node[1].voters" and "no pair" in one.text


def chain(levels: int) -> list[str]:
    """Ids of nodes, each below the one before."""
    return ["/".join(["root", *(f"n{level}" for level in range(2, end + 1))]) for end in range(1, levels + 1)]


def nodes_of(ids: list[str]) -> str:
    return CLUSTER + "".join(
        f'[[node]]\nid = "{one}"\nendpoint = "tcp://10.0.0.1:{5000 + at}"\n' for at, one in enumerate(ids)
    )


def test_eight_levels_are_good_and_a_ninth_is_refused_by_its_depth() -> None:
    assert not any("level" in str(one) for one in _all_of(load(nodes_of(chain(8)))))
    (one,) = [one for one in mistakes(nodes_of(chain(9))) if "levels" in one.text]
    assert one.text.endswith("is wrong: it has 9 levels, and a node's id has 8 at most")
    assert "8 levels at most" in one.remedy


def test_a_voter_that_is_too_deep_is_refused_by_its_depth() -> None:
    deep = changed('["witness:w1"]', f'["node:{chain(9)[-1]}"]')
    assert any("it has 9 levels" in one.text for one in mistakes(deep))
    assert not any("levels, and" in one.text for one in mistakes(changed('["witness:w1"]', '["node:Root"]')))


def test_a_file_has_a_thousand_nodes_at_most() -> None:
    ids = ["root", *(f"root/n{number}" for number in range(1_000))]
    assert not any("entries" in one.text for one in _all_of(load(nodes_of(ids[:-1]))))
    assert any("has 1001 entries, at most 1000 are allowed" in one.text for one in mistakes(nodes_of(ids)))


def _all_of(answer: LoadedTopology | list[Mistake]) -> list[Mistake]:
    return list(answer.warnings) if isinstance(answer, LoadedTopology) else answer
