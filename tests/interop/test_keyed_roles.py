"""Roles over real keyed links, against real members: what each role may ask, and what happens when it changes."""

import asyncio
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from albireo.client import Client, NodeRefused, NodeUnreachable, ProducerRefused, SampleProducer, connect
from albireo.codec.questions.declared import QUESTIONS
from albireo.model.access import ROLE_WORDS, AccessRole, RoleGrant
from albireo.model.item import DataItem
from albireo.model.samples import SampleBatch
from albireo.model.value import ItemId, ValueType
from albireo.node.member.audit_trail import audits_at_end
from albireo.runtime.clock import wall_ns
from tests.parts.core_pair import PLACES, Plant, aside, keyed_plant, until
from tests.parts.producing import producing
from tests.parts.waiting import PATIENCE_S

DESK = "rosa@desk"
ITEM = DataItem(name="level", value_type=ValueType.FLOAT64)
LACKS = "needs the role"
ASKED = [one.name for one in QUESTIONS.values() if one.answerer.part == "core"]
HARMLESS = [one for one in ASKED if one not in ("stop_now", "stop_hold", "stop_level", "promote", "pair_init")]
"""Questions that may be answered to an admin without ending the story."""


async def given(plant: Plant, role: AccessRole, member: int = 0, node: str = "") -> None:
    """Let a member's key directory give DESK this role, as the command does it: on disk."""
    plant.keys[PLACES[member]].trust(DESK, plant.keys[DESK].public, RoleGrant(role, node))
    core = plant.cores[member]
    wanted = role if RoleGrant(role, node).covers("root") else AccessRole.VIEW
    await until(lambda: core.root.access.role_of(DESK) is wanted, f"{DESK} is {role.word}")


def error_of(remote: Client, what: str, **arguments: Any) -> str:
    try:
        remote.ask(what, timeout_s=PATIENCE_S, **arguments)
    except NodeRefused as refused:
        return refused.reason
    return ""


def told(plant: Plant, member: int, *questions: str) -> dict[str, str]:
    """What DESK hears to each question: the refusal, or nothing."""
    remote = connect(plant.lines[member], keys=plant.keys[DESK], is_pinned=True)
    try:
        return {one: error_of(remote, one) for one in questions}
    finally:
        remote.close()


def audited(plant: Plant) -> list[tuple[str, str, str]]:
    """Action, claimed user and principal of each audit entry in the pair's log."""
    return [(one.action, one.user, one.principal) for one, _ in audits_at_end(plant.cores[0].log)]


@pytest.mark.slow
def test_each_role_may_ask_what_the_table_says(tmp_path: Path) -> None:
    async def story() -> None:
        async with keyed_plant(tmp_path, DESK) as plant:
            for word in ROLE_WORDS:
                role = AccessRole[word.upper()]
                await given(plant, role)
                questions = HARMLESS if role is AccessRole.ADMIN else list(ASKED)
                answers = await aside(partial(told, plant, 0, *questions))
                refused = {one for one, error in answers.items() if LACKS in error}
                assert refused == {one for one in questions if QUESTIONS[one].role > role}, word
            assert plant.state(0) == "solo"

    asyncio.run(story())


@pytest.mark.slow
def test_a_refused_order_is_on_record_with_the_key_and_the_name_that_was_claimed(tmp_path: Path) -> None:
    """The forged user is visible: the principal beside it is the key's, whatever was claimed."""

    async def story() -> None:
        async with keyed_plant(tmp_path, DESK) as plant:
            await given(plant, AccessRole.VIEW)

            def forge() -> list[str]:
                remote = connect(plant.lines[0], keys=plant.keys[DESK], is_pinned=True)
                try:
                    return [
                        error_of(remote, "access_grant", principal=DESK, role="admin", user="root"),
                        error_of(remote, "cases"),
                    ]
                finally:
                    remote.close()

            forged, looked = await aside(forge)
            assert LACKS in forged and not looked
            await given(plant, AccessRole.ADMIN)
            assert await aside(lambda: told(plant, 0, "voter_reset"))
            core = plant.cores[0]
            await until(lambda: core.root.folds.audit.count >= 3, "both are on record")
            entries = audited(plant)
            assert ("access_refused", "root", DESK) in entries
            assert ("voter_reset", DESK, DESK) in entries
            assert ("pair_init", "a client on this machine", f"local:{os.getuid()}") in entries

    asyncio.run(story())


@pytest.mark.slow
def test_a_passive_member_refuses_by_the_roles_that_are_on_record(tmp_path: Path) -> None:
    async def story() -> None:
        async with keyed_plant(tmp_path, DESK) as plant:
            await plant.start(1)
            await plant.wait_for("active", "ready")

            def revoke() -> object:
                with connect(plant.data(0), is_pinned=True) as client:
                    client.ask("access_grant", principal="other", role="admin")
                    return client.ask("access_revoke", principal=DESK)

            with pytest.raises(NodeRefused, match="the last admin"):
                await aside(revoke)  # `other` has no key.
            await given(plant, AccessRole.ENGINEER)
            await aside(revoke)
            await until(lambda: plant.cores[1].root.access.role_of(DESK) is AccessRole.VIEW, "the record is folded")
            answers = await aside(lambda: told(plant, 1, "maintenance", "status"))
            assert LACKS in answers["maintenance"] and not answers["status"]
            wanted = ("access_refused", "", DESK)
            await until(lambda: wanted in audited(plant), "the active member has it on record")
            assert [one[0] for one in audited(plant)].count("access_refused") == 1

    asyncio.run(story())


def batch() -> SampleBatch:
    times = np.array([wall_ns()], np.int64)
    return SampleBatch(
        value_type=ValueType.FLOAT64,
        item_id=np.array([ItemId(0)], np.uint32),
        source_ns=times,
        node_ns=times,
        value=np.array([1.0]),
        quality=np.zeros(1, np.uint32),
    )


def sent(producer: SampleProducer) -> None:
    """Have one batch committed."""
    producer.offer([batch()])
    assert producer.wait(PATIENCE_S)


def refusal_of(producer: SampleProducer) -> str:
    ends = wall_ns() + PATIENCE_S * 1_000_000_000
    while wall_ns() < ends:
        try:
            producer.offer([batch()])
            producer.wait(0.05)
        except ProducerRefused as refused:
            return str(refused.refusal)
    raise NodeUnreachable("the producer was never refused")


@pytest.mark.slow
def test_a_program_that_may_view_is_refused_in_words_and_one_that_loses_its_role_stops(tmp_path: Path) -> None:
    async def story() -> None:
        async with keyed_plant(tmp_path, DESK) as plant:
            await given(plant, AccessRole.VIEW)
            with producing("meter", [ITEM], plant.lines, plant.keys[DESK]) as viewer:
                assert "producer meter needs the role operate at root" in await aside(lambda: refusal_of(viewer))
            await given(plant, AccessRole.OPERATE)
            with producing("meter", [ITEM], plant.lines, plant.keys[DESK]) as producer:
                await aside(lambda: sent(producer))
                await given(plant, AccessRole.OPERATE, node="root/north")
                assert "'rosa@desk' has view" in await aside(lambda: refusal_of(producer))

    asyncio.run(story())
