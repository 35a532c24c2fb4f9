"""History through the client: whole tables, aggregates, events; a takeover and a loss in the middle of an answer."""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from albireo.client import AccessRefused, Client, HistoryCutShort, NodeRefused, aconnect, connect
from albireo.client.conversation import Conversation
from albireo.client.errors import ClientError
from albireo.client.history import pieces
from albireo.codec.questions.history import HISTORY_PIECE, RowsQuestion
from albireo.model import quality as q
from albireo.model.access import AccessRole
from albireo.model.instant import SECOND
from tests.parts.client import produce
from tests.parts.client_history import wait_for
from tests.parts.core_pair import aside, plant
from tests.parts.history import DAY_ZERO
from tests.parts.history_join import stored
from tests.parts.lone import NODE, LoneNode
from tests.parts.waiting import PATIENCE_S

pytestmark = [pytest.mark.slow]

DESK = "anna@desk"
ROWS = [(0, DAY_ZERO + at * SECOND, float(at), int(q.GOOD)) for at in range(2_000)]
END = DAY_ZERO + 2_000 * SECOND
SPAN: Any = {"names": ["number"], "from_ns": 0, "to_ns": 2**62}


def connected(lone: LoneNode, timeout_s: float = PATIENCE_S) -> Client:
    return connect(f"{lone.endpoint}#{NODE}", keys=lone.keys[DESK], timeout_s=timeout_s)


def test_rows_aggregates_and_events_come_as_arrow_tables(tmp_path: Path) -> None:
    def story(lone: LoneNode) -> None:
        lone.produce(DESK, ROWS)
        with connected(lone) as client:
            wait_for(len(ROWS), lambda: client.history("co", DAY_ZERO, END))
            shown = client.history("co", DAY_ZERO, END)
            frame = shown.to_pandas()
            assert list(frame.columns) == ["time", "item", "value", "unit", "quality"]
            assert (str(frame["time"].dtype), str(frame["value"].dtype)) == ("datetime64[us, UTC]", "float64")
            assert frame.iloc[7].tolist() == [frame["time"][7], f"{NODE}:co", 7.0, "", "Good"]
            assert frame["time"][7].value == DAY_ZERO + 7 * SECOND
            assert client.history("co", 0, 1).schema.equals(shown.schema), "empty, it has the same types"
            columns = client.history(["co"], DAY_ZERO, END, wide=True).schema.names
            assert columns == ["time", f"{NODE}:co", f"{NODE}:co:quality"]
            table = client.history("co", DAY_ZERO, END, raw=True)
            assert table.column("value_f64").to_pylist() == [row[2] for row in ROWS]
            assert table.column("source_ns").to_pylist() == [row[1] for row in ROWS]
            assert b"complete_to_ns" in table.schema.metadata
            minutes = client.history(["co"], DAY_ZERO, END, aggregate="max", every_s=60)
            assert minutes.column("value").to_pylist()[:2] == [59.0, 119.0]
            assert minutes.to_pandas()["rows"].sum() == len(ROWS)
            last = client.history("co", DAY_ZERO, END, aggregate="last", every_s=1000)
            assert last.column("value").to_pylist() == [999.0, 1999.0]
            band = client.band("co", DAY_ZERO, END, 1000)
            assert band.drop_columns(["time", "item", "unit"]).to_pylist() == [
                {
                    "min": at,
                    "max": at + 999,
                    "first": at,
                    "last": at + 999,
                    "average": at + 499.5,
                    "count": 1000,
                    "quality": band["quality"][0].as_py(),
                    "rows": 1000,
                    "good_s": 1000.0,
                    "uncertain_s": 0.0,
                    "bad_s": 0.0,
                }
                for at in (0.0, 1000.0)
            ]
            assert f"{NODE}:co:first" in client.band("co", DAY_ZERO, END, 1000, wide=True).column_names
            events = client.events(0)
            assert len(events) >= 1 and "kind" in events.schema.names
            back: list[Any] = []
            cursor = ""
            while cursor or not back:
                some = client.events(0, newest_first=True, limit=1, cursor=cursor)
                back += some.to_pylist()
                cursor = (some.schema.metadata.get(b"next") or b"").decode()
            assert back[: len(events)][::-1] == events.to_pylist(), "piece by piece from the newest on"
            with pytest.raises(NodeRefused, match="nothing"):
                client.history("nothing", DAY_ZERO, END)

    async def asynchronous(lone: LoneNode) -> None:
        async with await aconnect(lone.endpoint, keys=lone.keys[DESK], timeout_s=PATIENCE_S) as client:
            frame = (await client.history("co", DAY_ZERO, END)).to_pandas()
            assert (len(frame), frame["quality"].unique().tolist()) == (len(ROWS), ["Good"])
            assert (await client.band(["co"], DAY_ZERO, END, 500))["first"].to_pylist() == [0.0, 500.0, 1000.0, 1500.0]
            assert len(await client.events(0)) >= 1

    async def world() -> None:
        lone = LoneNode(tmp_path, DESK)
        async with lone.core_up(), lone.history_up():
            await aside(partial(story, lone))
            await asynchronous(lone)

    asyncio.run(world())


def test_a_role_that_does_not_suffice_is_an_error_of_its_own(tmp_path: Path) -> None:
    def story(lone: LoneNode) -> None:
        with connected(lone) as client:
            with pytest.raises(AccessRefused, match="needs the role operate") as refused:
                client.write("co", 1.0)
            assert "albireo access grant" in refused.value.remedy

    async def world() -> None:
        lone = LoneNode(tmp_path, DESK, role=AccessRole.VIEW)
        async with lone.core_up():
            await aside(partial(story, lone))

    asyncio.run(world())


def interrupted(conversation: Conversation[object], at: int, act: Callable[[], object]) -> Conversation[object]:
    """The same conversation; `act` is done before its request number `at`."""
    request, number = next(conversation), 0
    try:
        while True:
            number += 1
            if number == at:
                act()
            try:
                reply = yield request
            except ClientError as error:
                request = conversation.throw(error)
            else:
                request = conversation.send(reply)
    except StopIteration as ended:
        return ended.value


def test_a_long_answer_goes_on_at_the_other_member_after_a_takeover(tmp_path: Path) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with plant(tmp_path) as made:
            await made.start(1)
            await made.wait_for("active", "ready")
            async with stored(made, 0), stored(made, 1):
                client = await aside(lambda: connect(made.lines, timeout_s=PATIENCE_S))
                await aside(lambda: produce(client, 1, 500))
                for member in (0, 1):
                    await aside(partial(has_all, client, member, 500))

                def kill() -> None:
                    asyncio.run_coroutine_threadsafe(made.kill(0), loop).result(PATIENCE_S)

                asked = interrupted(pieces(HISTORY_PIECE, RowsQuestion(**SPAN, rows_max=100)), 3, kill)
                table = await aside(lambda: client.converse(asked))
                assert table.column("value_i64").to_pylist() == list(range(1, 501))
                assert client.acting == 1
                await aside(client.close)

    asyncio.run(story())


def has_all(client: Client, member: int, count: int) -> None:
    """Until the history of this member has so many rows."""
    wait_for(count, lambda: client.ask_parts("history_piece", of="history", member=member, **SPAN).result["rows"] * "x")


def test_an_answer_that_is_cut_short_says_so_and_goes_on_from_there(tmp_path: Path) -> None:
    async def story() -> None:
        lone = LoneNode(tmp_path, DESK)
        async with lone.core_up(), contextlib.AsyncExitStack() as history:
            await history.enter_async_context(lone.history_up())
            client = await aside(lambda: connected(lone))
            await aside(lambda: lone.produce(DESK, ROWS))
            span = RowsQuestion(names=("co",), from_ns=DAY_ZERO, to_ns=END, rows_max=300)
            await aside(lambda: wait_for(len(ROWS), lambda: client.converse(pieces(HISTORY_PIECE, span))))
            loop = asyncio.get_running_loop()

            def stop() -> None:
                asyncio.run_coroutine_threadsafe(history.aclose(), loop).result(PATIENCE_S)

            with pytest.raises(HistoryCutShort) as raised:
                await aside(lambda: client.converse(interrupted(pieces(HISTORY_PIECE, span), 3, stop)))
            cut = raised.value
            assert len(cut.table) == 600
            async with lone.history_up():
                rest = await aside(lambda: client.converse(pieces(HISTORY_PIECE, replace(span, cursor=cut.cursor))))
            values = [*cut.table.column("value_f64").to_pylist(), *rest.column("value_f64").to_pylist()]
            assert values == [row[2] for row in ROWS]
            await aside(client.close)

    asyncio.run(story())
