"""Selections as they are listed, here and above, and how an admin ends one of somebody else (ADR-0224)."""

from typing import Any

import pytest

from albireo.codec.message import Answer, Ask, FeedState
from albireo.codec.record import Audited, SelectionEnded
from albireo.machine.answers.rows import selections_below
from albireo.machine.fold.commands.selections import SELECTIONS
from albireo.machine.fold.state_piece import WHOLE, StateSource
from albireo.machine.tree.mirror import NodeMirror
from albireo.model.command import SELECT_MS
from albireo.model.instant import MS, SECOND, WallTime
from albireo.model.position import Position
from tests.parts.pieces import pieces_since
from tests.parts.refusals import refused_with
from tests.parts.root import World
from tests.parts.selecting import ANN, BOB, deselect, ends, select, selected, up, write


def listed(one: World) -> list[dict[str, Any]]:
    found: Any = one.ask("selections").result
    rows: list[dict[str, Any]] = found
    return rows


def audited(one: World, action: str) -> list[Audited]:
    return [each for each in one.records(Audited) if isinstance(each, Audited) and each.action == action]


def end(one: World, principal: str, selection_id: str = "s1", user: str = "chief") -> str:
    """The refusal of an admin's word, or `ok`."""
    number = one.end.sequence
    arguments = {"item": "barrier", "selection_id": selection_id, "of_others": True, "user": user, "reason": "he left"}
    one.letter(b"admin", Ask(request_id=number, what="deselect", arguments=arguments), principal=principal)
    one.sync()
    (answer,) = [each for each in one.take(Answer) if isinstance(each, Answer) and each.request_id == number]
    return refused_with(answer) or "ok"


def test_a_selection_is_listed_with_who_has_it_and_what_is_left() -> None:
    one = selected()
    one.pass_time(10 * SECOND)
    (row,) = listed(one)
    assert (row["item"], row["user"], row["principal"]) == ("root:barrier", ANN, ANN)
    assert (row["for_ms"], row["left_ms"]) == (SELECT_MS, SELECT_MS - 10_000)
    one.pass_time(SELECT_MS * MS)
    assert listed(one) == []


@pytest.mark.parametrize("how", [deselect, write])
def test_what_ended_is_not_listed(how: Any) -> None:
    one = selected()
    assert how(one) in ("ok", "taken")
    assert listed(one) == []


def test_an_admin_ends_a_selection_of_somebody_else_and_both_are_on_record() -> None:
    one = selected()
    assert "needs the role admin" in end(one, BOB)
    assert listed(one) and ends(one) == []
    assert end(one, "local:0") == "ok"
    assert (listed(one), ends(one)) == ([], ["ended"])
    entry = next(
        each for each in one.records(Audited) if isinstance(each, Audited) and each.action == "selection_ended"
    )
    assert (entry.user, entry.principal, entry.detail) == ("chief", "local:0", f"selected by {ANN}: he left")
    assert write(one) == "not_selected"
    assert select(one, "s2", BOB) == "ok"


def test_a_refused_admin_is_on_record() -> None:
    one = selected()
    end(one, BOB)
    refused = audited(one, "access_refused")
    assert [(each.subject, each.principal) for each in refused] == [("deselect barrier of another principal", BOB)]


def test_of_a_later_selection_nothing_is_ended() -> None:
    one = selected()
    deselect(one)
    assert select(one, "s2", BOB) == "ok"
    assert end(one, "local:0", "s1").startswith(f"{BOB} ({BOB}) has selected")
    assert [row["selection_id"] for row in listed(one)] == ["s2"]


def told(mirror: NodeMirror, source: StateSource, since: int, to: Position) -> None:
    """What a follower takes of a state."""
    for piece in pieces_since(source, since, to):
        state: FeedState = piece.message
        mirror.take(state, piece.raw)


def test_a_node_above_shows_selections_as_they_begin_and_end() -> None:
    one, mirror = up(), NodeMirror("root")
    told(mirror, one.root.folds, WHOLE, one.end)
    begun = one.end.sequence
    assert select(one) == "ok"
    told(mirror, one.root.folds, begun, one.end)
    (chosen,) = mirror.table(SELECTIONS)
    assert (chosen.user, chosen.selection_id) == (ANN, "s1")
    rows = [row for _, row in selections_below(mirror, 0, WallTime(chosen.since_ns + 12 * SECOND))]
    assert [(row.item, row.left_ms, row.stale_since_ns) for row in rows] == [("root:barrier", 18_000, None)]
    above = NodeMirror("root")
    told(above, mirror, WHOLE, mirror.position)
    assert list(above.table(SELECTIONS)) == list(mirror.table(SELECTIONS))
    at, before = one.end.sequence, mirror.position.sequence
    deselect(one)
    assert [each.cause for each in one.records(SelectionEnded) if isinstance(each, SelectionEnded)] == ["cancelled"]
    told(mirror, one.root.folds, at, one.end)
    told(above, mirror, before, mirror.position)
    assert (len(mirror.table(SELECTIONS)), len(above.table(SELECTIONS))) == (0, 0)
