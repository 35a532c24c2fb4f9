"""The benchmark of trees in small sizes: each part runs and finds figures. No test judges them."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import Case, Progress
from bench._followers import many_followers
from bench.tree import SHORT, TreeSizes, added_sites, changes_and_orders, many_items, paced_backlog
from tests.long_form import some

pytestmark = [pytest.mark.crowd, pytest.mark.drill, pytest.mark.slow]

Part = Callable[[Path, TreeSizes, Progress], list[Case]]
PARTS: list[tuple[Part, set[str]]] = [
    (many_items, {"s", "B", "ms"}),
    (added_sites, {"us", "1/s", "% of a core", "B"}),
    (changes_and_orders, {"ms", "1/s", "% of a core"}),
    (paced_backlog, {"samples/s", "min", "us", "ms"}),
]


@pytest.mark.parametrize(("part", "units"), some(PARTS, len(PARTS)))
def test_each_part_of_the_tree_benchmark_finds_its_figures(tmp_path: Path, part: Part, units: set[str]) -> None:
    told: list[str] = []
    cases = part(tmp_path, SHORT, told.append)
    assert {one.unit for one in cases} == units
    assert all(math.isfinite(one.ours) for one in cases), cases
    assert all(one.ours > 0 for one in cases if one.unit != "B"), cases
    assert told, "whoever waits is told how far it is"


def test_each_of_two_hundred_followers_over_curve_is_given_each_change(tmp_path: Path) -> None:
    """`make bench` does the same with a thousand. A follower that is passed over ends it with an error."""
    cases = many_followers(tmp_path, 200, 1.0, lambda _: None)
    assert {one.unit for one in cases} == {"s", "ms", "% of a core"}
    assert [one.held for one in cases if one.goal is not None] == [True], "nobody thinks that the node is silent"
