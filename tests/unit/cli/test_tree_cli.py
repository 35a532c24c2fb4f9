"""`albireo tree`: what there is of each node below, what is to come, and what is missing for good."""

from typing import Any

import msgspec
import pytest

from albireo.cli.below.nodes import (
    NodeTold,
    missing_lines,
    missing_text,
    nodes_told,
    pair_text,
    to_come_text,
    with_pace,
)
from albireo.model.instant import SECOND
from albireo.model.tree.node_row import NodeRow

WALL = 1_800_000_000 * SECOND


def row(node: str = "root/north", **fields: Any) -> NodeRow:
    one = NodeRow(
        node=node, by="root/north", stale_since_ns=None, items=3, position="1:9", complete_to_ns=WALL, behind=0
    )
    return msgspec.structs.replace(one, **fields)


def stats(index: int = 1, *, final: int = 0, **fields: Any) -> dict[str, Any]:
    """The history's word about the store of the site."""
    hole = {"first": 1, "last": 9, "from_ns": WALL - SECOND, "to_ns": WALL, "reason": "let_go", "is_final": bool(final)}
    return {
        "node": "root/north",
        "index": index,
        "complete_to_ns": WALL,
        "holes": 1,
        "settled": final,
        "lacks": [hole],
        "copy": {"is_incomplete": True, "files": 10, "done": 3, "trouble": "it does not answer"},
        "refused": {"crc": 2},
        **fields,
    }


def told(*rows: NodeRow, below: list[dict[str, Any]] | None = None) -> list[NodeTold]:
    return nodes_told("root", rows, None if below is None else {"below": below})


def test_a_node_of_which_all_is_here() -> None:
    (one,) = told(row(), below=[])
    assert (one.is_heard, one.behind, one.oldest_unsent_ns, one.caught_up_s) == (True, 0, None, 0.0)
    assert (to_come_text(one, WALL), missing_text(one), missing_lines(one)) == ("all here", "", [])


@pytest.mark.parametrize(
    ("leads", "pair", "text"),
    [
        ("", {}, ""),
        ("root/north[backup]", {"at_risk": 0.0, "other_lost": 0.0, "voters_silent": 0.0}, "backup leads"),
        ("root/north[primary]", {"at_risk": 1.0, "other_lost": 1.0}, "primary leads, AT RISK, the other one LOST"),
        ("", {"at_risk": 0.0, "voters_silent": 2.0}, "? leads, 2 voters SILENT"),
        ("", {"at_risk": None, "other_lost": None}, "? leads, state not known"),
    ],
)
def test_a_pair_below_says_who_leads_and_what_is_wrong(leads: str, pair: dict[str, float | None], text: str) -> None:
    (one,) = told(row(leads=leads, pair=pair))
    assert pair_text(one) == text


def test_a_node_that_is_behind_says_since_when_and_for_how_long() -> None:
    before, now = (told(row(behind=count, complete_to_ns=WALL - 600 * SECOND)) for count in (5_000, 3_000))
    (one,) = with_pace(before, now, 2.0)
    assert (one.behind, one.oldest_unsent_ns, one.caught_up_s) == (3_000, WALL - 600 * SECOND, 3.0)
    assert to_come_text(one, WALL) == "3000 to come, the oldest 10 m old; here in 3 s"
    (worse,) = with_pace(now, before, 2.0)
    assert worse.caught_up_s is None
    assert to_come_text(worse, WALL).endswith("not catching up")


def test_of_a_node_that_is_not_heard_nobody_knows_what_is_to_come() -> None:
    (one,) = told(row(stale_since_ns=WALL - 90 * SECOND, behind=12))
    assert (one.is_heard, one.behind, one.caught_up_s, to_come_text(one, WALL)) == (False, None, None, "not known")


def test_of_a_node_beyond_only_values_are_here() -> None:
    (one,) = nodes_told("root/north", [row("root/south", by="root", position="", complete_to_ns=0, behind=-1)], None)
    assert (one.is_below, to_come_text(one, WALL)) == (False, "values only")


def test_what_the_log_lacks_and_what_the_history_fetches_are_told_apart() -> None:
    (one,) = told(row(missing=77), below=[stats()])
    assert missing_text(one) == (
        "77 records missing in the log, 1 stretch of history to come, 3 of 10 files copied, it does not answer"
    )
    log, lacks, copy, refused = missing_lines(one)
    assert "no log here will have them" in log and "asked for" in lacks
    assert "3 of 10 files copied; it does not answer" in copy and "2 crc" in refused


def test_what_nobody_has_any_more_is_gone() -> None:
    (one,) = told(row(), below=[stats(final=1, copy=None, refused={})])
    assert missing_text(one) == "1 stretch of history GONE"
    (line,) = missing_lines(one)
    assert line.endswith("(let_go): nobody has them any more")


@pytest.mark.parametrize("turned", [False, True])
def test_of_several_stores_of_one_node_the_latest_counts(turned: bool) -> None:
    stores = [stats(1), stats(2, holes=0, lacks=[], copy=None, refused={})]
    (one,) = told(row(), below=stores[::-1] if turned else stores)
    assert missing_text(one) == ""
