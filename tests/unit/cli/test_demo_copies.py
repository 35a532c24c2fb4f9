"""The copies at the root of a demo against the sites' own histories, both by hand, and what the demo says of them."""

from pathlib import Path
from typing import Any

from albireo.cli.demo.copies import CopyAccount, copy_account
from albireo.cli.demo.cut import CutTold
from albireo.cli.demo.orders import OrdersTold
from albireo.cli.demo.recording import Recorded, RecordedNode
from albireo.cli.demo.told import DemoTold, told_of
from albireo.cli.demo.tree import NORTH, ROOT, SITES, SOUTH
from albireo.codec.history import BelowFolder, FileKind
from albireo.model.command import Outcome
from albireo.model.instant import SECOND
from albireo.model.tree.node_row import NodeRow
from tests.parts.demo_history import ACQUIRED, BEGAN, CO, DROPPED, ITEMS, sample, write_history
from tests.parts.status import node_status

Rows = list[dict[str, Any]]
OWN = [sample(1, CO, 1.0), sample(2, CO, 2.0, BEGAN + SECOND), sample(3, ACQUIRED, 2), sample(4, DROPPED, 0)]
"""Two samples of an adapter, and what it says of itself: both belong to its acquired ones."""


def compared(tmp_path: Path, own: Rows, copy: Rows, upto: int = 99) -> CopyAccount:
    write_history(tmp_path, {FileKind.SAMPLES: own})
    write_history(tmp_path, {FileKind.SAMPLES: copy}, upto=upto, name="copy")
    return copy_account(tmp_path / "history", tmp_path / "copy", BEGAN)


def test_the_same_rows_in_another_sequence_are_the_same(tmp_path: Path) -> None:
    found = compared(tmp_path, OWN, OWN[::-1])
    assert found == CopyAccount(rows=4, lost=0, doubled=0, is_same=True, behind=0)
    assert found.complaints() == []


def test_a_row_that_is_missing_or_there_twice_is_noticed(tmp_path: Path) -> None:
    found = compared(tmp_path, OWN, [OWN[0], OWN[0], OWN[2], OWN[3], OWN[3]])
    assert (found.lost, found.doubled, found.is_same) == (0, 1, False), "by the numbers of each item"
    found = compared(tmp_path / "second", OWN, OWN[1:])
    assert (found.lost, found.doubled, found.is_same) == (1, 0, False)
    assert found.complaints() == ["the root lacks 1 samples and has 0 twice"]


def test_a_row_that_became_another_is_noticed(tmp_path: Path) -> None:
    """Same item, another time: the numbers are right, the rows are not."""
    found = compared(tmp_path, OWN, [sample(1, CO, 1.0, BEGAN + 5 * SECOND), *OWN[1:]])
    assert (found.lost, found.doubled) == (0, 0)
    assert found.complaints() == ["samples at the root differ from those of the site"]


def test_rows_behind_the_end_of_the_copy_are_behind_and_not_lost(tmp_path: Path) -> None:
    found = compared(tmp_path, OWN, OWN[:2], upto=2)
    assert found == CopyAccount(rows=2, lost=0, doubled=0, is_same=True, behind=2)


def test_rows_that_the_site_did_not_seal_any_more_are_not_twice(tmp_path: Path) -> None:
    """A node's history stops before its CORE does."""
    write_history(tmp_path, {FileKind.SAMPLES: OWN[:2]}, upto=2)
    write_history(tmp_path, {FileKind.SAMPLES: OWN}, name="copy")
    found = copy_account(tmp_path / "history", tmp_path / "copy", BEGAN)
    assert (found.lost, found.doubled, found.is_same) == (0, 0, True)


def told(tmp_path: Path, copied: Rows, caught_up_s: float | None = 0.5) -> DemoTold:
    """Told of a demo whose three nodes recorded the same, of which the root has `copied` of the site in the north."""
    nodes = {node: RecordedNode(data=tmp_path / node.replace("/", "~"), epoch=2) for node in (ROOT, NORTH, SOUTH)}
    own = [sample(1, CO, 1.0), sample(2, CO, 2.0, BEGAN + SECOND), sample(3, ACQUIRED, 4), sample(4, DROPPED, 0)]
    for number, one in enumerate(nodes.values()):
        write_history(one.data, {FileKind.ITEMS: ITEMS, FileKind.SAMPLES: own})
        one.status = node_status(acquire_to_commit_ms={"p50": 1.0 + number, "p99": 9.0 - number})
    for site in SITES:
        rows = copied if site == NORTH else own
        write_history(nodes[ROOT].data, {FileKind.SAMPLES: rows}, name=BelowFolder(site, bytes(16)).path, node=site)
    row = NodeRow(
        node=NORTH, by=NORTH, stale_since_ns=None, items=2, position="2:99", complete_to_ns=7 * SECOND, behind=0
    )
    cut = CutTold(node=NORTH, seconds=10.0, records=700, caught_up_s=caught_up_s)
    commands = OrdersTold(sent=3, verified=2, failed=1)
    return told_of(Recorded(nodes=nodes, rows={NORTH: row}, commands=commands, cuts=[cut]), BEGAN)


def test_a_demo_without_a_loss_tells_of_each_node_and_of_all(tmp_path: Path) -> None:
    found = told(tmp_path, OWN)
    answer = found.answer
    assert found.complaints == []
    assert (answer["samples_acquired"], answer["samples_committed"], answer["history"]["rows"]) == (12, 12, 12)
    assert answer["acquire_to_commit_ms"] == {"p50": 2.0, "p99": 8.0}, "of the slower site; the root is none"
    assert answer["nodes"][SOUTH]["samples_committed"] == 4 and not answer["nodes"][SOUTH]["had_takeover"]
    assert answer["watermarks"][NORTH] == {
        "complete_to_s": 7.0,
        "position": "2:99",
        "rows": 4,
        "lost": 0,
        "doubled": 0,
        "is_same": True,
        "behind": 0,
    }
    assert answer["watermarks"][SOUTH]["complete_to_s"] is None, "the root did not answer any more"
    assert answer["commands"] == {"sent": 3, "verified": 2, "failed": 1, "failed_while_cut": 0, "unknown": 0}
    assert answer["cuts"] == [{"node": NORTH, "seconds": 10.0, "records": 700, "caught_up_s": 0.5}]
    assert found.lines()[-1] == "root/north was cut off for 10.0 s; it recorded 700 records meanwhile"


def test_what_the_root_lacks_of_a_site_is_a_complaint(tmp_path: Path) -> None:
    assert told(tmp_path, OWN[1:], caught_up_s=None).complaints == [
        "root/north: the root lacks 1 samples and has 0 twice",
        "the root did not get what root/north recorded while it was cut off",
    ]


def test_a_root_without_a_copy_is_a_complaint(tmp_path: Path) -> None:
    recorded = Recorded(nodes={node: RecordedNode(data=tmp_path / node) for node in (ROOT, NORTH, SOUTH)})
    complaints = told_of(recorded, BEGAN).complaints
    assert [one.partition(" cannot")[0] for one in complaints] == [
        *(f"the history of {node}" for node in (ROOT, NORTH, SOUTH)),
        *(f"the copy of {node} at the root" for node in (NORTH, SOUTH)),
    ]


def test_each_order_has_one_outcome() -> None:
    told = OrdersTold()
    for outcome in (Outcome.VERIFIED, Outcome.UNKNOWN, Outcome.EXPIRED, Outcome.REJECTED, Outcome.MISMATCHED):
        told = told.with_outcome(outcome, is_heard=outcome in (Outcome.VERIFIED, Outcome.REJECTED))
    assert told == OrdersTold(sent=5, verified=1, failed=3, failed_while_cut=1, unknown=1)
