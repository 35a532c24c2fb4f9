"""Figures of topics, and the cases that follow: a full topic, dead letters that nobody takes, files that lack some."""

import pytest

from albireo.codec.puts import CursorMoved, LeaseMoved, LeaseStep
from albireo.codec.topic_records import Subscribed, TopicDeclared
from albireo.machine.diagnostics import topics as module
from albireo.machine.diagnostics.topics import TopicFigures
from albireo.machine.kernel.events import Measured
from albireo.machine.topics.serving import Serving
from albireo.model.instant import SECOND, Instant
from albireo.model.topic import TopicPolicy
from albireo.model.topic_lease import Sharing
from tests.parts.root import World
from tests.parts.topics_log import WHO, TopicsLog, begun, follow


def topic(log: TopicsLog, name: str, policy: TopicPolicy) -> int:
    return log.state(TopicDeclared(name=name, since_ns=0, policy=policy))


def figures(serving: Serving) -> tuple[float, float]:
    """Those of a whole round."""
    found = TopicFigures()
    for _ in range(20):
        found.looked(serving.tables)
    return found.looked(serving.tables)


@pytest.mark.parametrize("looked_max", [1, 500])
def test_the_fullest_topic_counts(looked_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOKED_MAX", looked_max)
    log = TopicsLog()
    ring, large = topic(log, "ring", TopicPolicy(max_messages=10)), topic(log, "large", TopicPolicy(max_bytes=64_000))
    free, unread = log.topic("free"), topic(log, "unread", TopicPolicy(max_messages=1))
    slow = log.subscribe("slow", "ring", "large", "free")
    serving = begun(log)
    assert figures(serving) == (0.0, 0.0)
    log.put((ring, [b""] * 6), (free, [b""] * 100), (unread, [b""] * 5))
    follow(serving, log)
    assert figures(serving) == (60.0, 0.0)
    log.put((large, [bytes(48_000)]))
    follow(serving, log)
    assert figures(serving)[0] == pytest.approx(75.0)
    log.put(moves=[CursorMoved(slow, large, 1), CursorMoved(slow, ring, 4)])
    follow(serving, log)
    assert figures(serving) == (20.0, 0.0)


def test_dead_letters_count_until_they_are_taken() -> None:
    log = TopicsLog()
    jobs = log.topic("jobs")
    sharing = Sharing(deliveries_max=1, dead_letters="failed")
    crew = log.state(Subscribed(subscriber="crew", principal=WHO, patterns=("jobs",), since_ns=0, sharing=sharing))
    log.put((jobs, [b"1", b"2", b"3"]))
    log.put(leases=[LeaseMoved(crew, jobs, ((1, 2),), 7)])
    log.put(leases=[LeaseMoved(crew, jobs, ((1, 2),), 7, LeaseStep.GIVEN_BACK)])
    serving = begun(log)
    assert figures(serving) == (0.0, 2.0)
    log.put(moves=[CursorMoved(crew, jobs, 0, ((1, 2),))])
    follow(serving, log)
    assert figures(serving) == (0.0, 0.0)


def test_messages_that_files_lack_are_a_case() -> None:
    world = World()
    for lacking in (1, 0):
        for _ in range(35):
            world.now = Instant(world.now + SECOND)
            world.step(Measured(turn_ms=1.0, log_bytes=1, room_bytes=1 << 40, messages_lacking=lacking))
            world.sync()
        found = world.ask("cases").result
        assert isinstance(found, list)
        assert ["root:core/messages_lacking"] * lacking == [one["item"] for one in found if one["is_active"]]
