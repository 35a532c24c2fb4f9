"""Messages that a member's files lack come from the other member: its disk was exchanged, or a file is damaged."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from albireo.client import Client, connect
from albireo.codec.topic_files import MessageManifest, decode_manifest
from tests.long_form import some
from tests.parts.process_pair import VOTERS, Pair, until
from tests.parts.snapshot_drill import members
from tests.parts.waiting import PATIENCE_S, awaited

pytestmark = [pytest.mark.drill, pytest.mark.slow]

EVENTS, JOBS = "plant.events", "plant.jobs"
BATCHES, EACH, SIZE = 48, 8, 60_000
SETTINGS = """
[node.log]
segment_mib = 1
disk_reserve_mib = 0
bytes_max_mib = 64
snapshot_every_s = 1
keep_h = 0
[node.history]
seal_every_s = 1
"""


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    with (tmp_path / "plant.toml").open("a") as plant:
        plant.write(SETTINGS)
    try:
        made.start(*VOTERS, "primary")
        until(lambda: made.run("pair", "init", member="primary")[0] == 0, lambda: "begun")
        made.wait_for("solo", "silent")
        yield made
    finally:
        made.end()


def manifest(pair: Pair, member: str) -> MessageManifest:
    path = pair.data(member) / "topics" / "manifest"
    return decode_manifest(path.read_bytes()) if path.exists() else MessageManifest()


def begin(pair: Pair, member: str) -> int:
    """First sequence that is still in its log."""
    found = (pair.data(member) / "log" / "segments").glob("*.segment")
    return min((int(one.stem) for one in found if one.stem.isdigit()), default=0)


def connected(pair: Pair) -> Client:
    return connect(members(pair), timeout_s=PATIENCE_S, name="mes")


def body(number: int) -> bytes:
    return b"%06d" % number + bytes(SIZE)


def put(client: Client) -> None:
    """More than is kept in memory, to both topics by turns."""
    client.topics.create(EVENTS)
    client.topics.create(JOBS)
    client.topics.subscribe(EVENTS, subscriber="billing")
    client.topics.subscribe(JOBS, subscriber="crew", shared=True)
    for batch in range(BATCHES):
        first = batch // 2 * EACH
        client.topics.put_many((EVENTS, JOBS)[batch % 2], [body(first + one) for one in range(EACH)])


def check_read(client: Client) -> None:
    """Each message of both is there, once, and none is told to be lost."""
    wanted = [body(number) for number in range(BATCHES // 2 * EACH)]
    got = []
    for message in client.topics.messages(EVENTS, subscriber="billing", timeout_s=PATIENCE_S):
        assert message.lost_before == 0
        got.append(message.body)
        if len(got) == len(wanted):
            break
    assert got == wanted
    jobs = []
    with client.topics.consumer(JOBS, subscriber="crew") as consumer:
        for message in consumer.messages(PATIENCE_S):
            jobs.append(message.body)
            if len(jobs) == len(wanted):
                break
    assert sorted(jobs) == wanted


def test_a_member_with_an_empty_disk_gets_what_its_log_does_not_reach(pair: Pair) -> None:
    with connected(pair) as client:
        put(client)
        awaited(lambda: manifest(pair, "primary").files)
        until(lambda: begin(pair, "primary") > 1, lambda: "the primary has not pruned")
        pair.start("backup")
        pair.wait_for("active", "ready")
        awaited(lambda: manifest(pair, "backup"), lambda one: one.files and not one.holes)
        pair.lose("primary")
        check_read(client)


def damage(pair: Pair, member: str) -> None:
    """Cut its first file in half."""
    (first, *_) = awaited(lambda: manifest(pair, member).files)
    with (pair.data(member) / "topics" / first.name).open("r+b") as file:
        file.truncate(first.size_bytes // 2)


def test_a_consumer_waits_for_what_only_the_other_member_has(pair: Pair) -> None:
    pair.start("backup")
    pair.wait_for("active", "ready")
    with connected(pair) as client:
        put(client)
        awaited(lambda: manifest(pair, "primary").files)
        awaited(lambda: manifest(pair, "backup").files)
        pair.lose("primary")
        damage(pair, "backup")
        with client.topics.consumer(EVENTS, subscriber="billing") as consumer:
            awaited(lambda: manifest(pair, "backup").holes)
            assert consumer.take(1.0) == [], "nothing is skipped"
            pair.start("primary")
            assert [one.body for one in consumer.take(PATIENCE_S)[:1]] == [body(0)]
        check_read(client)


@pytest.mark.parametrize("leads", some([False, True], 2))
def test_a_damaged_file_comes_from_the_other_member(pair: Pair, leads: bool) -> None:
    pair.start("backup")
    pair.wait_for("active", "ready")
    with connected(pair) as client:
        put(client)
        member = "primary" if leads else "backup"
        awaited(lambda: manifest(pair, "backup" if leads else "primary").files)
        damage(pair, member)
        if not leads:
            pair.pass_lead("backup", "switchover", by="primary")
        check_read(client)
    assert list(pair.data(member).glob("topics.damaged-*"))
