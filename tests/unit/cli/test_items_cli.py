"""`albireo items`: its order."""

from albireo.cli.display import counted, of_plant
from albireo.cli.node.items import place_in_list


def test_what_the_node_says_of_itself_comes_behind_the_items_of_the_plant() -> None:
    names = ["core/log_bytes", "fan_10", "host/cpu", "plc/connected", "fan_2", "co_1", "core/epoch_2", "core/epoch_10"]
    ordered = [
        "co_1",
        "fan_2",
        "fan_10",
        "core/epoch_2",
        "core/epoch_10",
        "core/log_bytes",
        "host/cpu",
        "plc/connected",
    ]
    assert sorted([f"root:{name}" for name in names], key=place_in_list) == [f"root:{name}" for name in ordered]


def test_what_nodes_say_of_themselves_is_listed_where_it_is_asked_for_or_alone() -> None:
    every = ["root:co_1", "root:core/turn_ms", "root/north:plc/connected"]
    for asked in ((), ("*",), ("root/north:*",), ("*:*",)):
        assert of_plant(every, str, asked) == ["root:co_1"]
    assert of_plant(every, str, ("*/*",)) == every
    assert of_plant(every[1:], str) == every[1:]


def test_one_is_no_plural() -> None:
    assert [counted(n, "item") for n in (0, 1, 2)] == ["0 items", "1 item", "2 items"]
