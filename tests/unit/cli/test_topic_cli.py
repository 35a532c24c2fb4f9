"""`albireo topic` against a node: what it declares is there for who lists, shows and subscribes."""

import asyncio
import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from albireo.cli import cli
from albireo.client import aconnect
from albireo.model.topic import Topic
from albireo.node.topics.actor import TopicsActor
from albireo.node.topics.arguments import TopicsArguments
from albireo.runtime import running
from tests.parts.client import lone
from tests.parts.core_pair import aside
from tests.parts.lone import NODE
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


def test_messages_are_got_once_and_policies_are_set_and_shown(tmp_path: Path) -> None:
    def run(*arguments: str) -> Any:
        result = CliRunner().invoke(cli, ["topic", *arguments, "--data", str(tmp_path), "--json"])
        return json.loads(result.stdout.splitlines()[-1])

    def get(*arguments: str) -> list[Any]:
        return [
            (one["body"], one["key"]) for one in run("get", "plant.>", "--subscriber", "desk", *arguments)["messages"]
        ]

    def story() -> None:
        ring = run("create", "plant.events", "--max-messages", "3", "--max-age", "90s", "--keep", "1m")
        assert ring["policy"] == {"max_messages": 3, "max_age_s": 90, "keep_s": 60}
        assert "keep_s" in run("change", "plant.events", "--max-age", "1s", "--keep", "1m")["error"]
        run("subscribe", "plant.>", "--subscriber", "desk")
        for one in range(4):
            run("put", "plant.events", f"m{one}", "--key", "fan", "--header", "unit", "rpm")
        (first,) = run("get", "plant.>", "--subscriber", "desk")["messages"]
        assert (first["body"], first["lost_before"], first["headers"]) == ("m1", 1, {"unit": "rpm"})
        assert get("--count", "9") == [("m2", "fan"), ("m3", "fan")]
        nothing = CliRunner().invoke(cli, ["topic", "get", "plant.>", "--subscriber", "desk", "--data", str(tmp_path)])
        assert (nothing.exit_code, nothing.stdout.strip()) == (1, "no message")
        run("subscribe", "plant.events", "--subscriber", "late", "--from-first")
        assert run("change", "plant.events")["policy"] == {}
        alone = ["subscribe", "a", "--subscriber", "b", "--lease", "1s", "--data", str(tmp_path)]
        assert "with --shared" in CliRunner().invoke(cli, ["topic", *alone]).output
        lease = ("--shared", "--lease", "1m", "--deliveries-max", "2", "--dead-letters", "plant.dead")
        assert "plant.dead" in run("subscribe", "plant.events", "--subscriber", "crew", *lease)["error"]
        run("create", "plant.dead")
        made = run("subscribe", "plant.events", "--subscriber", "crew", *lease)
        assert made["sharing"] == {"lease_s": 60, "deliveries_max": 2, "dead_letters": "plant.dead"}
        run("put", "plant.events", "job")
        assert run("get", "plant.events", "--subscriber", "crew")["messages"][0]["deliveries"] == 1
        assert get("--count", "9") == [("job", None)]
        run("unsubscribe", "plant.events", "--subscriber", "crew")
        for one in range(3):
            run("put", "plant.events", f"n{one}", "--key", "k", "--header", "a", "b")
        alike = ["move", "plant.>", "plant.dead", "--subscriber", "desk", "--data", str(tmp_path)]
        assert "come back" in CliRunner().invoke(cli, ["topic", *alike]).output
        run("create", "other")
        run("subscribe", "other", "--subscriber", "there")
        assert run("move", "plant.>", "other", "--subscriber", "desk", "--count", "2", "--wait", "0.3")["moved"] == 2
        assert run("move", "plant.>", "other", "--subscriber", "desk", "--wait", "0.3")["moved"] == 1
        came = run("get", "other", "--subscriber", "there", "--count", "9")["messages"]
        assert [(one["body"], one["key"], one["headers"]) for one in came] == [
            (f"n{one}", "k", {"a": "b"}) for one in range(3)
        ]
        measured = run("bench", "--seconds", "0.2", "--batch", "10")
        assert measured["left"] == 0 and measured["messages"] >= 10 and measured["put_per_s"] > 0
        assert {one["name"] for one in run("list")["topics"]} == {"plant.events", "plant.dead", "other"}
        assert run("purge", "plant.events")["name"] == "plant.events"
        assert [one["unread"] for one in run("show", "plant.events")["readers"]] == [0, 0]

    async def world() -> None:
        async with lone(tmp_path), running(TopicsActor(TopicsArguments(node=NODE)), tmp_path):
            await aside(story)

    asyncio.run(world())
