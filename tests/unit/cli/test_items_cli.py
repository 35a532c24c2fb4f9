"""`albireo items`: its order."""

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
