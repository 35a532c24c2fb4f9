"""Changes between two topologies: each is named, with what it takes until it holds."""

import pytest

from albireo.codec.topology.adapter_kind import AdapterKind
from albireo.codec.topology.changes import TopologyChange, changes_of
from albireo.codec.topology.plan import ApplyPlan, plan_of
from albireo.codec.topology.topology import LoadedTopology, load_topology
from albireo.field.modbus.config import ModbusConfig
from albireo.model.topology import find_place

SITE = """cluster = "6f1c2f7e-7e6a-4a0e-9d39-3f0d5d0f3a11"
[[witness]]
name = "w1"
endpoint = "tcp://10.0.0.9:5000"
[[witness]]
name = "w2"
endpoint = "tcp://10.0.0.8:5000"
[[group]]
label = "All"
members = ["root", "root/north"]
[[group]]
label = "North"
members = ["root/north"]
[[node]]
id = "root"
label = "Centre"
primary = { client = "tcp://10.0.0.1:5000", peer = ["tcp://10.1.0.1:5001"] }
backup = { client = "tcp://10.0.0.2:5000", peer = ["tcp://10.1.0.2:5001"] }
voters = ["witness:w1"]
[[node]]
id = "root/north"
endpoint = "tcp://10.0.0.10:5000"
[[node.object]]
name = "fans"
items = ["fan_*"]
[[node.adapter]]
name = "p1"
kind = "test"
items = "p1.csv"
"""
TABLE = "name,unit,hi\nfan_1,kW,5\nco,ppm,70\n"
KINDS = {"test": AdapterKind(needs_url=None, settings=ModbusConfig)}
PAIR = ("root[primary]", "root[backup]")


def load(text: str, table: str = TABLE) -> LoadedTopology:
    files = {"topology.toml": text, "p1.csv": table, "p2.csv": "name\nx\n"}
    answer = load_topology("topology.toml", files.__getitem__, KINDS)
    assert isinstance(answer, LoadedTopology), answer
    return answer


def changes(old: str, new: str, table: str = TABLE) -> list[TopologyChange]:
    assert old in SITE
    return list(changes_of(load(SITE), load(SITE.replace(old, new, 1), table)))


def the_change(old: str, new: str, table: str = TABLE) -> TopologyChange:
    (change,) = changes(old, new, table)
    return change


def test_a_file_that_is_only_written_otherwise_has_no_change() -> None:
    assert changes('label = "Centre"', '# The centre.\nlabel = "Centre"', "hi,name,unit\n70,co,ppm\n5,fan_1,kW\n") == []


@pytest.mark.parametrize(
    ("old", "new", "what", "name", "before", "after", "restart"),
    [
        ('label = "Centre"', 'label = "Center"', "setting", "label", "Centre", "Center", ()),
        ('label = "Centre"', "", "setting", "label", "Centre", None, ()),
        ('label = "Centre"', 'label = "Centre"\nlimits.items_max = 9', "setting", "limits.items_max", None, 9, ()),
        ('label = "Centre"', 'label = "Centre"\nlog.keep_h = 9', "setting", "log.keep_h", None, 9.0, PAIR),
        ("10.0.0.2:5000", "10.0.0.3:5000", "setting", "backup.client", "tcp://10.0.0.2:5000", "tcp://10.0.0.3:5000",
         (*PAIR, "root/north")),
        ("10.0.0.10:5000", "10.0.0.11:5000", "setting", "endpoint", "tcp://10.0.0.10:5000", "tcp://10.0.0.11:5000",
         ("root/north",)),
        ('voters = ["witness:w1"]', 'voters = ["witness:w2"]', "setting", "voters", ["witness:w1"], ["witness:w2"],
         (*PAIR, "witness:w1", "witness:w2")),
        ("tcp://10.0.0.9:5000", "tcp://10.0.0.7:5000", "witness", "w1", {"endpoint": "tcp://10.0.0.9:5000"},
         {"endpoint": "tcp://10.0.0.7:5000"}, ("witness:w1", *PAIR)),
        ("tcp://10.0.0.8:5000", "tcp://10.0.0.7:5000", "witness", "w2", {"endpoint": "tcp://10.0.0.8:5000"},
         {"endpoint": "tcp://10.0.0.7:5000"}, ("witness:w2",)),
        ("6f1c", "7f1c", "cluster", "", "6f1c2f7e-7e6a-4a0e-9d39-3f0d5d0f3a11", "7f1c2f7e-7e6a-4a0e-9d39-3f0d5d0f3a11",
         (*PAIR, "root/north")),
        ('kind = "test"', 'kind = "test"\nguard = "stamp"', "setting", "p1.guard", None, "stamp", ("root/north",)),
        ('kind = "test"', 'kind = "test"\nlabel = "PLC"', "setting", "p1.label", None, "PLC", ()),
        ('name = "fans"', 'name = "fans"\nlabel = "Fans"', "object", "fans", {}, {"label": "Fans"}, ()),
        ('label = "North"\nmembers = [', 'label = "North"\nmembers = ["root", ', "group", "North",
         {"members": ["root/north"]}, {"members": ["root", "root/north"]}, ()),
    ],
)  # fmt: skip
def test_each_change_is_named_with_what_has_to_be_restarted(
    old: str, new: str, what: str, name: str, before: object, after: object, restart: tuple[str, ...]
) -> None:
    change = the_change(old, new)
    assert (change.what, change.how, change.name) == (what, "changed", name)
    assert (change.old, change.new, change.restart) == (before, after, restart)
    assert change.is_live is not bool(restart)
    assert bool(change.because) is bool(restart)


HALL = '[[node]]\nid = "root/north/hall"\n'


def test_other_states_are_wanted_without_a_restart_if_all_between_take_the_file_up() -> None:
    old, new = (SITE + HALL + more for more in ("", 'uplink = { state = "tree" }\n'))
    (change,) = changes_of(load(old), load(new))
    assert (change.name, change.restart) == ("uplink.state", ())
    assert "between it and the root" in change.because


def over_a_hall(voter: str, client: str = "10.0.0.2", hall: str = HALL) -> str:
    text = SITE.replace('["witness:w1"]', f'["{voter}"]').replace("10.0.0.2", client)
    return text.replace('[[node]]\nid = "root/north"\n', f'{hall}[[node]]\nid = "root/north"\n')


@pytest.mark.parametrize(
    ("old", "new", "name", "restart"),
    [
        (over_a_hall("witness:w1"), over_a_hall("node:root/north/hall"), "voters",
         (*PAIR, "witness:w1", "root/north/hall")),
        (over_a_hall("node:root/north"), over_a_hall("node:root/north/hall"), "voters",
         (*PAIR, "root/north", "root/north/hall")),
        (over_a_hall("witness:w1", hall=""), over_a_hall("node:root/north/hall"), "voters", (*PAIR, "witness:w1")),
        (over_a_hall("node:root/north/hall"), over_a_hall("node:root/north/hall", "10.0.0.3"), "backup.client",
         (*PAIR, "root/north", "root/north/hall")),
        (over_a_hall("node:root/north"), over_a_hall("node:root/north", "10.0.0.3"), "backup.client",
         (*PAIR, "root/north")),
    ],
    ids=["becomes a voter", "one for the other", "a new node votes", "dials from two levels below", "dials once"],
)  # fmt: skip
def test_a_node_below_that_votes_is_restarted_with_its_pair(
    old: str, new: str, name: str, restart: tuple[str, ...]
) -> None:
    """It dials the members at its start, from however deep, and compares its list with theirs."""
    (change,) = [one for one in changes_of(load(old), load(new)) if one.what == "setting"]
    assert (change.name, change.restart) == (name, restart)


def test_items_are_compared_by_name_and_cell_and_taken_up_as_the_node_runs() -> None:
    found = changes("", "", "name,unit,hi\nfan_1,kW,6\nno,ppm,\n")
    assert [(one.how, one.name, one.old, one.new) for one in found] == [
        ("changed", "fan_1", {"hi": "5"}, {"hi": "6"}),
        ("removed", "co", {"adapter": "p1", "unit": "ppm", "hi": "70"}, None),
        ("added", "no", None, {"adapter": "p1", "unit": "ppm"}),
    ]
    assert {(one.what, one.node, one.is_live) for one in found} == {("item", "root/north", True)}
    assert {one.started_anew for one in found} == {("p1",)}


def test_a_setting_that_an_adapter_alone_reads_starts_it_anew_and_nothing_else() -> None:
    change = the_change('kind = "test"', 'kind = "test"\npoll_ms = 500')
    assert (change.name, change.old, change.new) == ("p1.poll_ms", None, 500)
    assert change.is_live and change.started_anew == ("p1",)


GATED = 'guard = "gate"\nurl = "tcp://g:1"\ngated_url = "tcp://h:1"\nmailbox_address = 9\n'


@pytest.mark.parametrize("fixed", ["voter_address = 9000\n", GATED])
def test_an_adapter_whose_plc_votes_or_stands_behind_a_gate_is_not_started_anew_as_the_node_runs(fixed: str) -> None:
    before = load(SITE + fixed)
    by_poll = changes_of(before, load(SITE + fixed + "poll_ms = 500\n"))
    by_item = changes_of(before, load(SITE + fixed, TABLE.replace("70", "71")))
    for (change,) in (by_poll, by_item):
        assert change.restart == ("root/north",) and change.started_anew == () and "votes" in change.because


def test_an_item_that_moves_starts_both_adapters_anew() -> None:
    shared = SITE.replace('items = "p1.csv"\n', "").replace(
        'endpoint = "tcp://10.0.0.10:5000"\n', 'endpoint = "tcp://10.0.0.10:5000"\nitems = "p1.csv"\n'
    )
    shared += '[[node.adapter]]\nname = "p2"\nkind = "test"\n'
    (change,) = changes_of(
        load(shared, "name,adapter\nfan_1,p1\nco,p1\nno,p2\n"), load(shared, "name,adapter\nfan_1,p1\nco,p2\nno,p2\n")
    )
    assert (change.name, change.old, change.new) == ("co", {"adapter": "p1"}, {"adapter": "p2"})
    assert change.started_anew == ("p1", "p2")


def test_a_new_node_below_restarts_nobody_and_one_that_goes_is_stopped() -> None:
    south = '[[node]]\nid = "root/south"\n'
    added = the_change('[[node]]\nid = "root/north"', f'{south}[[node]]\nid = "root/north"')
    assert (added.what, added.how, added.node, added.is_live) == ("node", "added", "root/south", True)
    assert "start it" in added.because and "root/south" in added.because
    (removed,) = changes_of(load(SITE + south), load(SITE))
    assert (removed.what, removed.how, removed.node, removed.is_live) == ("node", "removed", "root/south", True)
    assert "stop it" in removed.because


def test_an_adapter_comes_and_goes_with_a_restart_and_its_items_are_named_too() -> None:
    second = '[[node.adapter]]\nname = "p2"\nkind = "test"\nitems = "p2.csv"\n'
    added, item = changes_of(load(SITE), load(SITE + second))
    assert (added.what, added.how, added.name, added.restart) == ("adapter", "added", "p2", ("root/north",))
    assert (item.what, item.how, item.name, item.is_live) == ("item", "added", "x", True)
    removed = changes_of(load(SITE + second), load(SITE))[0]
    assert (removed.what, removed.how, removed.name, removed.restart) == ("adapter", "removed", "p2", ("root/north",))


def test_a_witness_that_no_pair_lists_comes_without_a_restart() -> None:
    third = '[[witness]]\nname = "w3"\nendpoint = "tcp://w3:1"\n'
    added = the_change('[[group]]\nlabel = "All"', f'{third}[[group]]\nlabel = "All"')
    assert (added.what, added.how, added.name, added.is_live) == ("witness", "added", "w3", True)


def test_a_node_that_becomes_a_pair_is_restarted_as_it_ran() -> None:
    pair = 'primary = {{ client = "tcp://10.0.0.{}:5000", peer = ["tcp://10.1.0.{}:5001"] }}\n'
    both = pair.format(10, 10) + pair.format(11, 11).replace("primary", "backup")
    found = changes('endpoint = "tcp://10.0.0.10:5000"\n', both)
    assert {one.name for one in found} == {"endpoint", "primary.client", "primary.peer", "backup.client", "backup.peer"}
    assert {one.restart for one in found} == {("root/north",)}


def test_groups_in_another_order_are_a_change() -> None:
    first, second = SITE[SITE.index("[[group]]") : SITE.index("[[node]]")].split("[[group]]")[1:]
    change = the_change(f"[[group]]{first}[[group]]{second}", f"[[group]]{second}[[group]]{first}")
    assert (change.what, change.old, change.new, change.is_live) == ("group", ["All", "North"], ["North", "All"], True)


def plan(new: LoadedTopology, place: str, old: LoadedTopology | None = None) -> ApplyPlan:
    before = load(SITE) if old is None else old
    return plan_of(before, new, find_place(before.topology, place))


def test_a_place_takes_up_what_is_its_own_and_starts_only_the_adapters_concerned_anew() -> None:
    text = SITE.replace('kind = "test"', 'kind = "test"\npoll_ms = 500').replace('label = "North"', 'label = "Nord"')
    found = plan(load(text, TABLE.replace("70", "71")), "root/north")
    assert [(one.what, one.name) for one in found.taken] == [
        ("setting", "p1.poll_ms"),
        ("item", "co"),
        ("group", "North"),
        ("group", "Nord"),
    ]
    assert found.started_anew == ("p1",) and found.refused == () and found.elsewhere == ()
    other = plan(load(SITE, TABLE.replace("70", "71")), "root[backup]")
    assert (len(other.elsewhere), other.taken, other.refused, other.started_anew) == (1, (), (), ())


@pytest.mark.parametrize(
    ("old", "new", "place", "refused"),
    [
        ('label = "Centre"', "log.keep_h = 9", "root[primary]", ["log.keep_h"]),
        ('label = "Centre"', "log.keep_h = 9", "root/north", []),
        ("10.0.0.2:5000", "10.0.0.3:5000", "root/north", ["backup.client"]),
        ("10.0.0.9:5000", "10.0.0.7:5000", "root[backup]", ["w1"]),
        ("10.0.0.9:5000", "10.0.0.7:5000", "root/north", []),
        ('voters = ["witness:w1"]', 'voters = ["witness:w2"]', "root[primary]", ["voters"]),
        ('name = "p1"', 'name = "p7"', "root/north", ["p1", "p7"]),
        ('id = "root/north"', 'id = "root/nord"', "root/north", [""]),
        ("6f1c", "7f1c", "root/north", [""]),
    ],
)
def test_a_place_refuses_by_name_what_takes_its_restart(old: str, new: str, place: str, refused: list[str]) -> None:
    text = SITE.replace(old, new, 1)
    if 'id = "root/north"' in old:
        text = text.replace("root/north", "root/nord")
    assert [one.name for one in plan(load(text), place).refused] == refused


def test_a_parent_takes_up_a_new_node_below_it_and_the_others_have_nothing_to_do_with_it() -> None:
    deep = load(SITE + '[[node]]\nid = "root/north/hall"\n')
    assert [one.node for one in plan(deep, "root/north").taken] == ["root/north/hall"]
    assert [one.node for one in plan(deep, "root[primary]").elsewhere] == ["root/north/hall"]
