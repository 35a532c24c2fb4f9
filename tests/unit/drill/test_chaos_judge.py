"""The judge of the drill `chaos`: it is content with a true history, and names each fault of an untrue one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from albireo.drill.chaos.history import Acked, Event, Got, HistoryWriter, Settled, read_history
from albireo.drill.chaos.judge import ChaosAccount, judge

TOPICS = {"a": ["p/1", "q/1", "p/2"], "t": ["made/a/1", "made/a/2", "made/a/3"]}
SUBSCRIBED = {"r": ("a",), "crew": ("a",), "mover": ("a",)}


def history() -> list[Event]:
    events: list[Event] = [Acked(1, "p", 1, 2, "a"), Acked(2, "q", 1, 1, "a")]
    for at_ns, subscriber in ((10, "r"), (20, "crew"), (30, "mover")):
        for number, body in enumerate(TOPICS["a"], 1):
            events.append(Got(at_ns + number, subscriber, f"{subscriber}/1", "a", number, body))
        events.append(Settled(at_ns + 5, subscriber, (("a", 1), ("a", 2), ("a", 3))))
    return events


def judged(events: list[Event], topics: dict[str, list[str]] | None = None) -> ChaosAccount:
    return judge(topics or TOPICS, SUBSCRIBED, ["crew"], "mover", events)


def test_a_true_history_holds() -> None:
    account = judged(history())
    assert account.held and (account.acked, account.given) == (3, 9)
    assert not judged([]).held, "nothing was done"


def test_a_worker_may_get_messages_in_another_order() -> None:
    events = history()
    events += [Got(21, "crew", "crew/2", "a", 2, "q/1"), Got(22, "crew", "crew/2", "a", 1, "p/1")]
    assert judged(events).held


FAULTS: dict[str, tuple[str, Callable[[list[Event]], list[Event]]]] = {
    "an acknowledged message is not there": ("lost", lambda events: [*events, Acked(3, "p", 3, 3, "a")]),
    "a subscriber never got a message": ("lost", lambda events: [one for one in events if not is_got(one, "r", 2)]),
    "given again behind its acknowledgement": ("doubled", lambda events: [*events, Got(50, "r", "r/2", "a", 1, "p/1")]),
    "given to another worker behind it": ("doubled", lambda events: [*events, Got(50, "crew", "c/2", "a", 1, "p/1")]),
    "given out of order": ("reordered", lambda events: [*events, Got(14, "r", "r/1", "a", 2, "q/1")]),
    "another body": ("wrong", lambda events: [*events, Got(9, "r", "r/2", "a", 1, "p/9")]),
    "a number that is not there": ("wrong", lambda events: [*events, Got(9, "r", "r/2", "a", 4, "p/3")]),
}


def is_got(one: Event, subscriber: str, number: int) -> bool:
    return isinstance(one, Got) and (one.subscriber, one.number) == (subscriber, number)


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_of_a_history_is_named(name: str) -> None:
    what, made = FAULTS[name]
    account = judged(made(history()))
    assert not account.held and getattr(account, what) == account.faults > 0, account.details


@pytest.mark.parametrize(
    ("what", "topics"),
    [
        ("doubled", {**TOPICS, "u": ["x/1", "x/1"]}),
        ("reordered", {**TOPICS, "u": ["x/2", "x/1"]}),
        ("halves", {**TOPICS, "t": ["made/a/1", "made/a/3"]}),
        ("halves", {**TOPICS, "t": [*TOPICS["t"], "made/a/9"], "u": ["made/a/1"]}),
    ],
)
def test_each_fault_of_the_topics_is_named(what: str, topics: dict[str, list[str]]) -> None:
    account = judged(history(), topics)
    assert not account.held and getattr(account, what) == account.faults > 0, account.details


def test_a_line_that_was_cut_short_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "history"
    writer = HistoryWriter(path)
    for one in history():
        writer.write(one)
    with path.open("ab") as file:
        file.write(b'["acked", 1')
    assert list(read_history(path)) == history()
