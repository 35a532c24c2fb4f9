"""`albireo topic` against a node: what it declares is there for who lists, shows and subscribes."""

import asyncio
import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from albireo.cli import cli
from albireo.client import aconnect
from albireo.model.topic import Topic
from tests.parts.client import lone
from tests.parts.core_pair import aside
from tests.parts.waiting import PATIENCE_S


def test_topics_are_declared_shown_and_ended(tmp_path: Path) -> None:
    def run(*arguments: str) -> Any:
        result = CliRunner().invoke(cli, ["topic", *arguments, "--data", str(tmp_path), "--json"])
        return json.loads(result.stdout.splitlines()[-1])

    def story() -> None:
        assert run("list") == {"topics": []}
        topic = run("create", "plant.events")
        assert (topic["name"], topic["count"]) == ("plant.events", 0)
        assert run("create", "plant.events") == topic
        assert "no topic" in run("subscribe", "plant.alarms", "--subscriber", "billing")["error"]
        one = run("subscribe", "plant.events", "plant.doors.>", "--subscriber", "billing")
        assert one["patterns"] == ["plant.events", "plant.doors.>"]
        (reader,) = run("show", "plant.events")["readers"]
        assert (reader["subscription"], reader["unread"]) == (one, 0)
        assert run("put", "plant.events", "door open")["messages"] == 1
        piped = CliRunner().invoke(cli, ["topic", "put", "plant.events", "--data", str(tmp_path)], input="a\nb\n\n")
        assert "3 messages are put" in piped.output
        assert run("show", "plant.events")["readers"][0]["unread"] == 4
        run("unsubscribe", "plant.events", "plant.doors.>", "--subscriber", "billing")
        assert run("show", "plant.events")["readers"] == []
        run("delete", "plant.events")
        assert run("list") == {"topics": []}
        text = CliRunner().invoke(cli, ["topic", "list", "--data", str(tmp_path)]).output
        assert "there are no topics" in text

    async def world() -> None:
        async with lone(tmp_path):
            await aside(story)
            async with await aconnect(tmp_path, timeout_s=PATIENCE_S) as client:
                made: Topic = await client.topics.create("again")
                assert await client.topics.all() == [made]

    asyncio.run(world())
