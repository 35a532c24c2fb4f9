"""A case of a site is acknowledged at the root, and a name that nobody has is refused with what to do."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from albireo.client import NodeRefused, connect
from albireo.client.cases import CaseMeant
from albireo.model import quality as q
from albireo.model.case import Action
from albireo.model.item import AlarmSettings, Condition, DataItem
from albireo.model.value import ValueType
from tests.parts.core_pair import aside
from tests.parts.tree import tree_of
from tests.parts.tree_orders import NORTH, ROOT, run, shown, up
from tests.parts.waiting import PATIENCE_S, awaited

pytestmark = pytest.mark.slow
CO = DataItem(name="co", value_type=ValueType.FLOAT64, alarm=AlarmSettings(hi=1.0))


def test_a_case_of_a_site_is_acknowledged_at_the_root(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)

    def open_case(client: Any, *, is_acked: bool) -> Any:
        def found() -> list[Any]:
            return [one for one in client.cases(node=NORTH) if (one.item, one.is_acked) == (f"{NORTH}:co", is_acked)]

        return awaited(found)[0]

    def story_of() -> list[Any]:
        nodes[NORTH].produce([(0, 5, 2.0, q.GOOD)], items=[CO])
        with connect(nodes[ROOT].endpoint, timeout_s=PATIENCE_S) as client:
            case = open_case(client, is_acked=False)
            with pytest.raises(NodeRefused, match="no open case 4711"):
                client.act(Action.ACK, 4711, "", node="north")
            told = shown(nodes[ROOT], "cases", "ack", f"north:{case.case_id}", "--user", "ann", "--comment", "seen")
            assert told == {"cases": [], "elsewhere": [f"north:{case.case_id}"], "refused": [], "not_tried": []}
            open_case(client, is_acked=True)
            with connect(nodes[NORTH].endpoint, timeout_s=PATIENCE_S) as there:
                assert [one.is_acked for one in there.cases() if one.case_id == case.case_id] == [True]
            (course,) = [one for one in client.commands() if one.state == "executed"]
            return [course.kind, course.subject, course.user, course.reason, case.case_id]

    async def story() -> None:
        async with up(nodes[ROOT]), up(nodes[NORTH]):
            kind, subject, user, reason, number = await aside(story_of)
            assert (kind, user, reason) == ("case_action", "ann", "seen")
            assert subject == f"ack case {number} of {NORTH}"

    asyncio.run(story())


def test_cases_of_all_nodes_are_acknowledged_by_a_pattern_and_a_rule_of_a_site_is_silenced(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)
    fan = DataItem(name="fan", value_type=ValueType.FLOAT64, alarm=AlarmSettings(hi=1.0, lo=-1.0))

    def story_of() -> None:
        for name in (ROOT, NORTH):
            nodes[name].produce([(0, 5, 2.0, q.GOOD), (1, 5, 2.0, q.GOOD)], items=[CO, fan])
        with connect(nodes[ROOT].endpoint, timeout_s=PATIENCE_S) as client:
            waiting = awaited(lambda: client.waiting(Action.ACK, "*:c*"), lambda found: len(found) == 2)
            assert [one.node for one in waiting] == ["", NORTH]
            done = client.act_on_matching(Action.ACK, "*:c*", "seen")
            assert ([one.meant for one in done], [one.error for one in done]) == (waiting, [None, None])
            (here,), there = (one.changed for one in done)
            assert (here.is_acked, there) == (True, [])
            awaited(lambda: client.waiting(Action.ACK, "*:c*"), lambda found: not found)
            assert len(client.waiting(Action.ACK, "*:*")) == 2, "fans are not meant"
            (again,) = client.act_on(Action.ACK, [waiting[1]])
            assert "acknowledged already" in str(again.error) or "is acknowledged" in str(again.error)

            told = shown(nodes[ROOT], "cases", "shelve", "north:fan/lo", "--for", "60", "--user", "ann")
            assert told["elsewhere"] == ["north:fan/lo"]

            def silent() -> list[Any]:
                return [one for one in client.cases(node=NORTH) if (one.condition, one.shelving) == ("lo", "timed")]

            assert [one.item for one in awaited(silent)] == [f"{NORTH}:fan"]
            (refused,) = client.act_on(Action.ACK, [CaseMeant(node="north", item="fan", condition=Condition.LO)])
            assert "by its id" in str(refused.error)
            (none,) = client.act_on(Action.SHELVE, [CaseMeant(node="north", item="none", condition=Condition.LO)])
            assert isinstance(none.error, NodeRefused)

    async def story() -> None:
        async with up(nodes[ROOT]), up(nodes[NORTH]):
            await aside(story_of)

    asyncio.run(story())


def test_a_name_that_nobody_has_is_refused_with_what_to_do(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, ROOT, NORTH)

    def story_of() -> None:
        told = run(nodes[ROOT], "sessions", "end", "nord:1")
        assert told.exit_code == 2
        assert f"nothing is known of a node 'nord' at root, which knows {NORTH}" in told.output
        assert "What to do: `albireo tree` lists them" in told.output
        for listed in ("sessions", "selections", "cases"):
            told = run(nodes[ROOT], listed, "list", "nord")
            assert told.exit_code == 2 and "no node is called 'nord' here" in told.output, listed
            assert "name one by its id or the end of it; there are: " in told.output, listed
        for words in ("items nord:a", "write nord:a 1", "force nord:a 1 --for 1m --reason r", "selections end nord:a"):
            told = run(nodes[ROOT], *words.split())
            assert told.exit_code == 2 and "`albireo items 'nord:*'` lists those of that node" in told.output, words
        with connect(nodes[ROOT].endpoint, timeout_s=PATIENCE_S) as client:
            for order in (client.select, lambda item: client.write(item, 1.0), client.release):
                with pytest.raises(NodeRefused, match=r"nothing is known of a node 'nord'.*what to do: `albireo tree`"):
                    order("nord:speed")
                with pytest.raises(NodeRefused, match=rf"{NORTH} has no item 'nothing'.*albireo items"):
                    order("north:nothing")

    async def story() -> None:
        async with up(nodes[ROOT]), up(nodes[NORTH]):
            await aside(story_of)

    asyncio.run(story())
