"""Forces that messages order at the node that owns the item, and what the nodes above are told of them."""

from typing import Any

import msgspec
import pytest

from albireo.codec.message_records import MessageEnd
from albireo.codec.questions.orders import ItemForceAsked, ReleaseAsked
from albireo.codec.record import ForceEnded, ItemForced
from albireo.machine.fold.items.forces import FORCES, Forces
from albireo.machine.fold.state_piece import WHOLE, StateSource
from albireo.machine.kernel.turn import Moment
from albireo.machine.message.ends import command_id_of
from albireo.machine.orders.force.elsewhere import rows_below
from albireo.machine.orders.force.forcing import ForceBody, ReleaseBody
from albireo.machine.orders.force.kinds import ForceItem, ReleaseItem
from albireo.machine.tree.mirror import NodeMirror
from albireo.model.instant import SECOND, Instant, WallTime
from albireo.model.tree.message import MessageOutcome
from albireo.model.value import Value
from tests.parts import brought
from tests.parts.forcing import LONG_MS, force, forces, release, up
from tests.parts.pieces import pieces_since
from tests.parts.root import World
from tests.parts.tables import header_at


def executed(one: World, asked: ItemForceAsked | ReleaseAsked, not_after: int = SECOND) -> tuple[MessageEnd, list[Any]]:
    """The end of a message, and the records that carrying it out drafts."""
    if isinstance(asked, ReleaseAsked):
        kind, body = ReleaseItem(one.root), msgspec.msgpack.encode(ReleaseBody(asked.item))
        return brought.executed(kind, body, not_after)
    order = msgspec.msgpack.encode(ForceBody(asked.item, asked.value, asked.for_ms))
    return brought.executed(ForceItem(one.root), order, not_after, "desk", " broken ")


def asked(item: str = "co", value: Value = 20.0, for_ms: int = LONG_MS) -> ItemForceAsked:
    return ItemForceAsked(item=item, value=value, for_ms=for_ms, reason="broken")


def test_a_message_forces_an_item_with_its_principal_reason_and_time() -> None:
    one, _ = up()
    end, records = executed(one, asked(value=20))
    assert (end.outcome, end.read_back) == (MessageOutcome.EXECUTED, 20.0)
    (forced,) = [record for record in records if isinstance(record, ItemForced)]
    assert (forced.user, forced.principal, forced.reason, forced.for_ms) == ("ann", "desk", "broken", LONG_MS)
    assert forced.command_id == command_id_of(brought.NAME)


def test_a_message_releases_an_item() -> None:
    one, _ = up()
    force(one)
    end, records = executed(one, ReleaseAsked(item="co"))
    assert end.outcome is MessageOutcome.EXECUTED
    assert [record.cause for record in records if isinstance(record, ForceEnded)] == ["released"]


@pytest.mark.parametrize(
    ("order", "words"),
    [
        (asked("nothing"), "no item"),
        (asked(value="high"), "co"),
        (asked(for_ms=0), "a force lasts"),
        (ReleaseAsked(item="co"), "is not forced"),
    ],
)
def test_an_order_that_can_not_be_meant_is_rejected_by_its_owner(
    order: ItemForceAsked | ReleaseAsked, words: str
) -> None:
    one, _ = up()
    end, records = executed(one, order)
    assert (end.outcome, words in end.detail, records) == (MessageOutcome.REJECTED, True, [])


def test_a_force_is_not_begun_after_its_time() -> None:
    one, _ = up()
    end, records = executed(one, asked(), not_after=0)
    assert (end.outcome, records) == (MessageOutcome.EXPIRED, [])


def test_a_later_tenure_knows_a_force_by_the_name_of_its_message() -> None:
    one, _ = up()
    _, records = executed(one, asked())
    folds = one.root.folds
    recovering = ForceItem(one.root)
    assert brought.recovered(recovering).outcome is MessageOutcome.UNKNOWN
    (forced,) = [record for record in records if isinstance(record, ItemForced)]
    folds.of(Forces).fold(forced, 1, header_at(folds.log_time_ms))
    assert (brought.recovered(recovering).outcome, brought.recovered(recovering).read_back) == (
        MessageOutcome.EXECUTED,
        20.0,
    )


def test_nodes_above_see_each_force_begin_change_and_end() -> None:
    one, _ = up()
    above, top = NodeMirror("root"), NodeMirror("root")
    seen = [WHOLE, WHOLE]

    def followed() -> list[tuple[str, Value, str]]:
        told, committed = (above, top), one.root.folded_to
        sources: tuple[StateSource, ...] = (one.root.folds, above)
        for place, source in enumerate(sources):
            at = committed if place == 0 else above.position
            for piece in pieces_since(source, seen[place], at, bytes_max=1):
                told[place].take(piece.message, piece.raw)
            seen[place] = at.sequence
        rows = [[row for _, row in rows_below(mirror, -1, brought.NOW)] for mirror in told]
        assert rows[0] == rows[1]
        return [(row.item, row.value, row.reason) for row in rows[0]]

    assert followed() == []
    force(one)
    assert followed() == [("root:co", 20.0, "sensor broken")]
    force(one, value=21.0, reason="still")
    force(one, "fan", 3.0)
    assert followed() == [("root:co", 21.0, "still"), ("root:fan", 3.0, "sensor broken")]
    (row, _), (own, _) = [row for _, row in rows_below(above, -1, brought.NOW)], forces(one)
    assert (row.measured.value, row.user, row.unit) == (own["measured"]["value"], own["user"], "ppm")
    release(one)
    assert followed() == [("root:fan", 3.0, "sensor broken")]
    assert [
        item_id for item_id, _ in rows_below(above, min(one.item_id for one in above.table(FORCES)), brought.NOW)
    ] == []
    seen[0] = WHOLE
    assert followed() == [("root:fan", 3.0, "sensor broken")]


def test_what_is_left_above_is_reckoned_by_wall_time() -> None:
    one, _ = up()
    force(one)
    mirror = NodeMirror("root")
    for piece in pieces_since(one.root.folds, WHOLE, one.root.folded_to):
        mirror.take(piece.message, piece.raw)
    (forced,) = mirror.table(FORCES)
    for passed_s, left_ms in ((0, LONG_MS), (60, LONG_MS - 60_000), (10_000, 0)):
        moment = Moment(Instant(0), WallTime(forced.since_ns + passed_s * SECOND))
        ((_, row),) = rows_below(mirror, -1, moment)
        assert row.left_ms == left_ms
