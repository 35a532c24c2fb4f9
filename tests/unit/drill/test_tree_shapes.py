"""Shapes of the trees that are drilled."""

import tomllib
from pathlib import Path

import pytest

from albireo.drill.tree.shapes import SHAPES

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize("name", [name for name, shape in SHAPES.items() if len(shape.levels) == 3])
def test_a_tree_of_three_levels_is_a_topology_of_the_examples(name: str) -> None:
    nodes = tomllib.loads((EXAMPLES / name / "topology.toml").read_text(encoding="utf-8"))["node"]
    assert [one["id"] for one in nodes] == list(SHAPES[name].levels)
    assert {one["id"]: tuple(one["voters"]) for one in nodes if "voters" in one} == SHAPES[name].voters


def test_every_combination_of_levels_is_drilled() -> None:
    drilled = {name for name, shape in SHAPES.items() if len(shape.levels) == 3}
    assert drilled == {one.name for one in EXAMPLES.iterdir() if one.name.startswith("pair")}


@pytest.mark.parametrize("name", SHAPES)
def test_nobody_is_killed_along_with_the_only_voter_of_its_mate(name: str) -> None:
    """That would stop the pair, as it should, and show nothing."""
    shape = SHAPES[name]
    for killed in shape.kills:
        for pair in killed:
            voters = shape.voters[pair]
            lost = [one for one in voters if any(one.startswith(f"node:{other}[") for other in killed)]
            assert 2 * (len(voters) - len(lost)) > len(voters), (pair, killed)
