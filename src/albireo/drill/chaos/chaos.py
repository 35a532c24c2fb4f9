"""The drill: a pair under topics, and something done to it every few seconds.

    programs (producers, subscribers, workers, transactions)  <-- killed, begun again
    operator (topics and subscriptions come and go)
    members, witnesses                                        <-- killed, paused, cut off, switched over

At the end everything is whole, all subscribers have read all, and the judge compares what programs wrote down with what
an auditor reads, who subscribed first. Spec: docs/drill.md.
"""

import contextlib
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from albireo.client import Client, ClientError, NodeRefused, Sharing, connect
from albireo.drill.chaos.history import read_history
from albireo.drill.chaos.judge import ChaosAccount, judge
from albireo.drill.chaos.program import CREW, ENOUGH, JOBS, MOVER, READERS, SOURCE, TOPICS, reader_of
from albireo.drill.fault.network import NetworkGround
from albireo.drill.ground import DrillError, Ground
from albireo.drill.pair import MEMBERS, WITNESSES, Pair
from albireo.drill.plcs import Plcs
from albireo.runtime.errors import RuntimeFault

NAME: Final = "chaos"
WHAT: Final = "members, witnesses and clients are killed, paused, cut off and restarted under topics of all kinds"
PROGRAMS: Final = 4
AUDITOR: Final = "auditor"
DRAIN_S: Final = 300.0
"""Time in which all subscribers read what is left, once everything is whole."""
LEASE_S: Final = 5
TAKE_S: Final = 20.0


class ChaosReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the drill; the JSON line."""

    fault: str
    seed: int
    seconds: float
    actions: dict[str, int]
    """How often each was done."""
    acked: int
    given: int
    lost: int
    doubled: int
    reordered: int
    wrong: int
    halves: int
    operator: int
    """Changes of topics and subscriptions that an operator made."""
    held: bool


class ClientProgram:
    """One program, through its lives."""

    def __init__(self, pair: Pair, index: int) -> None:
        self._pair = pair
        self._index = index
        self._life = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._life += 1
        directory = self._pair.directory
        places = [text for line in self._pair.lines for text in (line.endpoint, line.peer)]
        numbers = [str(self._index), str(self._life)]
        module = "albireo.drill.chaos.program"
        with (directory / f"program-{self._index}.log").open("ab") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, str(directory), str(directory / "keys" / "operator"), *numbers, *places],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
            )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class TopicOperator(threading.Thread):
    """Declares and ends topics and subscriptions, and looks whether they are as it was answered."""

    def __init__(self, client: Callable[[], Client], seed: int) -> None:
        super().__init__(name="operator", daemon=True)
        self._client = client
        self._drawn = random.Random(f"operator {seed}")
        self._is_over = threading.Event()
        self.changes = 0
        self.failures: list[str] = []

    def end(self) -> None:
        self._is_over.set()
        self.join()

    def run(self) -> None:
        while not self._is_over.is_set():
            try:
                with self._client() as client:
                    while not self._is_over.wait(self._drawn.uniform(0.2, 1.0)):
                        self._change(client, f"side.{self._drawn.randrange(8)}")
            except ClientError:
                self._is_over.wait(0.5)  # What became of it the next look shows.

    def _change(self, client: Client, name: str) -> None:
        is_there = name in {one.name for one in client.topics.all()}
        match self._drawn.choice(["topic", "topic", "subscription", "put"]):
            case "topic" if is_there:
                client.topics.delete(name)
            case "topic":
                client.topics.create(name)
            case "subscription" if is_there:
                client.topics.subscribe(name, subscriber=f"side-{name}", from_first=True)
                client.topics.put(name, b"side")
                with client.topics.consumer(name, subscriber=f"side-{name}") as consumer:
                    found = consumer.take(TAKE_S)
                    consumer.acknowledge(found[-1])
                if not found:
                    self.failures.append(f"{name}: what was put behind a subscription did not come")
                client.topics.unsubscribe(name, subscriber=f"side-{name}")
            case _:
                with contextlib.suppress(NodeRefused):
                    client.topics.put(name, b"nobody's")
                return
        self.changes += 1
        there = {one.name for one in client.topics.all()}
        if (name in there) == is_there and not is_there:
            self.failures.append(f"{name} was created, and is not there")


class Hands:
    """Deeds done to the pair, until they are undone."""

    def __init__(self, pair: Pair, programs: list[ClientProgram], network: NetworkGround | None, seed: int) -> None:
        self._pair = pair
        self._programs = programs
        self._network = network
        self._drawn = random.Random(seed)
        self._undo: list[tuple[float, Callable[[], None]]] = []
        self.done: dict[str, int] = {}

    def act(self) -> str:
        """Do something."""
        drawn = self._drawn
        deeds: dict[str, Callable[[], Callable[[], None] | None]] = {
            "kill a member": lambda: self._kill(drawn.choice(MEMBERS)),
            "pause a member": lambda: self._pause(drawn.choice(MEMBERS)),
            "kill both members": lambda: self._kill(*MEMBERS),
            "kill a witness": lambda: self._kill(drawn.choice(WITNESSES)),
            "pause a witness": lambda: self._pause(drawn.choice(WITNESSES)),
            "switch over": self._switch,
            "restart a program": self._restart,
        }
        weights = [5, 3, 1, 2, 1, 3, 4]
        if self._network is not None:
            deeds |= {"cut a member off": self._cut, "cut the members apart": lambda: self._cut(MEMBERS[1])}
            weights += [3, 2]
        (name,) = drawn.choices(list(deeds), weights)
        undo = deeds[name]()
        if undo is not None:
            self._undo.append((time.monotonic() + drawn.uniform(1.0, 8.0), undo))
        self.done[name] = self.done.get(name, 0) + 1
        return name

    def undo_due(self) -> None:
        """Undo what has lasted long enough."""
        now = time.monotonic()
        due = [undo for at, undo in self._undo if at <= now]
        self._undo = [one for one in self._undo if one[0] > now]
        for undo in due:
            undo()

    def undo_all(self) -> None:
        self._undo = [(0.0, undo) for _, undo in self._undo]
        self.undo_due()

    @property
    def is_quiet(self) -> bool:
        """True: nothing that was done lasts."""
        return not self._undo

    def _kill(self, *names: str) -> Callable[[], None]:
        for name in names:
            self._pair.groups[name].kill()

        def start() -> None:
            for name in names:
                if not self._pair.groups[name].is_running:
                    self._pair.groups[name].start()

        return start

    def _pause(self, name: str) -> Callable[[], None]:
        self._pair.groups[name].pause()
        return self._pair.groups[name].resume

    def _cut(self, only: str = "") -> Callable[[], None]:
        assert self._network is not None
        network, name = self._network, MEMBERS[0] if only else self._drawn.choice(MEMBERS)
        network.drop(name, goes_in=True, goes_out=True, only=only)
        return lambda: network.mend(name)

    def _switch(self) -> None:
        with contextlib.suppress(ClientError, RuntimeFault):
            acting = self._pair.acting()
            if acting is not None:
                self._pair.ask(acting[0], "switchover", timeout_s=5.0)

    def _restart(self) -> None:
        one = self._drawn.choice(self._programs)
        one.kill()
        one.start()


class ChaosDrill:
    """One pair, and all that is done to it."""

    def __init__(self, directory: Path, tell: Callable[[str], object], seed: int) -> None:
        """`tell` takes lines for people."""
        directory.mkdir(parents=True, exist_ok=True)
        objection = NetworkGround.objection()
        if objection:
            tell(f"no cable is cut: {objection}")
        self._ground = (Ground if objection else NetworkGround)(directory)
        self._directory = directory
        self._tell = tell
        self._seed = seed

    def run(self, seconds: float) -> ChaosReport:
        """Go on for so long, then judge."""
        account, problem, began = ChaosAccount(), "", time.monotonic()
        with contextlib.ExitStack() as afterwards:
            pair = self._begin(afterwards)
            programs = [ClientProgram(pair, index) for index in range(PROGRAMS)]
            network = self._ground if isinstance(self._ground, NetworkGround) else None
            hands, operator = Hands(pair, programs, network, self._seed), TopicOperator(self._client(pair), self._seed)
            try:
                self._declare(pair)
                operator.start()
                afterwards.callback(operator.end)
                for one in programs:
                    afterwards.callback(one.kill)
                    one.start()
                self._act(hands, seconds)
                hands.undo_all()
                pair.wait_healthy()
                operator.end()
                account = self._settled(pair, programs)
            except (DrillError, ClientError, RuntimeFault) as error:
                problem = f"it did not end: {error}"
            finally:
                hands.undo_all()
        for line in (*account.details, *operator.failures, *([problem] if problem else [])):
            self._tell(line)
        return ChaosReport(
            fault=NAME,
            seed=self._seed,
            seconds=round(time.monotonic() - began, 1),
            actions=hands.done,
            operator=operator.changes,
            held=account.held and not problem and not operator.failures,
            **{name: getattr(account, name) for name in _COUNTS},
        )

    def _begin(self, afterwards: contextlib.ExitStack) -> Pair:
        afterwards.callback(self._ground.undo)
        self._ground.make()
        plcs = Plcs(self._ground.own_address)
        afterwards.callback(plcs.end)
        plcs.begin()
        pair = Pair(self._ground, plcs.ports)
        afterwards.callback(pair.end)
        afterwards.callback(self._ground.release)
        pair.start()
        return pair

    def _client(self, pair: Pair) -> Callable[[], Client]:
        return lambda: connect(pair.lines, keys=pair.keys, name="operator", timeout_s=20.0)

    def _declare(self, pair: Pair) -> None:
        with self._client(pair)() as client:
            for name in TOPICS:
                client.topics.create(name)
            client.topics.subscribe("chaos.>", subscriber=AUDITOR)
            client.topics.subscribe(JOBS, subscriber=CREW, shared=Sharing(lease_s=LEASE_S))
            client.topics.subscribe(SOURCE, subscriber=MOVER)
            for subscriber, patterns, _ in self._readers():
                client.topics.subscribe(patterns, subscriber=subscriber)

    def _readers(self) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
        return (reader_of(index, number) for index in range(PROGRAMS) for number in range(READERS))

    def _act(self, hands: Hands, seconds: float) -> None:
        drawn = random.Random(f"pauses {self._seed}")
        ends = time.monotonic() + seconds
        next_at = time.monotonic() + 5.0
        while time.monotonic() < ends:
            hands.undo_due()
            # Mostly one thing at a time; at times the next one comes while the last one lasts.
            if time.monotonic() >= next_at and (hands.is_quiet or drawn.random() < 0.02):
                self._tell(hands.act())
                next_at = time.monotonic() + drawn.uniform(1.0, 6.0)
            time.sleep(0.1)

    def _settled(self, pair: Pair, programs: list[ClientProgram]) -> ChaosAccount:
        """Let everything be read, and judge."""
        (self._directory / ENOUGH).touch()
        with self._client(pair)() as client:
            pair.until("every subscriber has read everything", lambda: self._is_read(client), DRAIN_S)
            for one in programs:
                one.kill()
            topics = self._audited(client)
        subscribed = {subscriber: names for subscriber, _, names in self._readers()}
        subscribed |= {CREW: (JOBS,), MOVER: (SOURCE,)}
        events = [event for path in sorted(self._directory.glob("history-*")) for event in read_history(path)]
        return judge(topics, subscribed, [CREW], MOVER, events)

    def _is_read(self, client: Client) -> bool:
        readers = [one for name in TOPICS for one in client.topics.readers(name)]
        return not any(one.unread for one in readers if one.subscription.subscriber != AUDITOR)

    def _audited(self, client: Client) -> dict[str, list[str]]:
        """Bodies of all topics, as the auditor reads them."""
        counts = {one.name: one.count for one in client.topics.all() if one.name in TOPICS}
        topics: dict[str, list[str]] = {name: [] for name in TOPICS}
        with client.topics.consumer("chaos.>", subscriber=AUDITOR) as consumer:
            while {name: len(found) for name, found in topics.items()} != counts:
                messages = consumer.take(TAKE_S)
                if not messages:
                    raise DrillError(f"the auditor got {sum(map(len, topics.values()))} of {sum(counts.values())}")
                for one in messages:
                    topics[one.topic].append(one.body.decode())
                    if one.number != len(topics[one.topic]):
                        raise DrillError(f"the auditor got {one.topic} {one.number} as the {len(topics[one.topic])}th")
                consumer.acknowledge(messages[-1], waits=False)
        return topics


_COUNTS: Final = ("acked", "given", "lost", "doubled", "reordered", "wrong", "halves")
