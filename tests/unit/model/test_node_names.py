"""A name of a node means the one whose id it is, else those whose ids end with it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albireo.model.refusal import ambiguous
from albireo.model.tree.node_names import NODES_TOLD, nodes_meant

NODES = ["root", "root/north", "root/north/hall", "root/south/hall", "root/south/root", "root/south/root/north"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("", []),
        ("root", ["root"]),
        ("root/north", ["root/north"]),
        ("north", ["root/north", "root/south/root/north"]),
        ("north/hall", ["root/north/hall"]),
        ("hall", ["root/north/hall", "root/south/hall"]),
        ("root/south/root", ["root/south/root"]),
        ("south/root", ["root/south/root"]),
        ("root/hall", []),
        ("south/root/north", ["root/south/root/north"]),
        ("orth", []),
        ("/north", []),
        ("west", []),
    ],
)
def test_an_id_goes_before_the_end_of_one(name: str, meant: list[str]) -> None:
    assert nodes_meant(name, NODES) == meant


PART = st.sampled_from(("a", "b", "ab"))
IDS = st.lists(PART, min_size=1, max_size=4).map("/".join)


@given(st.lists(IDS, unique=True).map(lambda ids: [f"root/{one}" for one in ids]), IDS)
def test_a_name_means_nodes_that_are_called_so_and_each_node_by_its_id(nodes: list[str], name: str) -> None:
    assert nodes_meant(name, nodes) == [one for one in nodes if one.endswith(f"/{name}")]
    for one in nodes:
        assert nodes_meant(one, nodes) == [one]


def test_the_words_name_the_candidates_and_no_more_than_a_few() -> None:
    nodes = [f"root/{number}/hall" for number in range(NODES_TOLD + 1)]
    refusal = ambiguous("hall", nodes)
    assert refusal.cause.startswith("'hall' may be one of root/0/hall or root/1/hall or")
    assert refusal.remedy == "name the node by its whole id, as in root/0/hall"
    assert nodes[-1] not in refusal.cause
