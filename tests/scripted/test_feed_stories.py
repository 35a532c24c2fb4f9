"""Feed stories: who follows a log while its members change, played with the real root machines, leaders and followers.

Two members, `a` and `b`, whose logs are lists of real frames; what they say to each other is carried by hand.

    lead NAME                 it leads in its next epoch: the first record is committed, it serves
    force NAME                the same in an epoch far ahead, whatever the other one has
    grant NAME                as `lead`, but the first record is not committed yet, nor what is known to be before it
    commit NAME               everything it has is committed, and it serves
    append NAME COUNT         so many records, committed
    copy NAME > NAME          the second takes what it lacks, and knows it to be committed
    copy NAME > NAME unheard  the same, and has not heard yet that it is committed
    cut NAME to NAME          the first comes back, is cut to what both have, and its CORE starts anew
    start NAME                its CORE starts anew with the log that it has
    mark WORD NAME            WORD stands for the last record of NAME from here on
    newcomer knows WORD       it has that position of somebody, and nothing else
    READER at NAME            connected to this member and no other; they talk until nothing more is said
    READER stays at NAME      the same, on the connection that it has

    -> READER told VERDICT [WORD]     what its last hello was answered with, and the position in it
    -> READER has the log of NAME     exactly its committed records, in order
    -> READER has the state of NAME   exactly its values
    -> READER noted WORD              since it was connected last
    -> READER keeps all it had        since it was connected last

Readers: `reader`, and `newcomer`, follow any member; `history` belongs to the store of `a`; `viewer` sees values only.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from albireo.codec import frame as codec
from albireo.codec import samples
from albireo.codec.frame import Frame
from albireo.codec.message import AnyMessage, FeedAck, FeedAlive, FeedAnswer, FeedData, FeedHello, FeedState
from albireo.machine.feed.follower import (
    CutBack,
    Deliver,
    Digested,
    Follower,
    FollowerConfig,
    LinkDown,
    LinkUp,
    MadeDurable,
    Noted,
    Received,
    TakeSnapshot,
    TellLeader,
)
from albireo.machine.fold.folds import Folds
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.events import (
    Answered,
    Committed,
    Deposed,
    Event,
    FollowersServed,
    FramesAppended,
    FramesFollowed,
    Granted,
    LettersDrained,
    Measured,
    Served,
    WakeUpEnded,
)
from albireo.machine.kernel.turn import Moment, Turn
from albireo.machine.root.root import Root
from albireo.model import quality
from albireo.model.instant import MS, SECOND, Instant, TimePassed, WallTime
from albireo.model.position import BEGINNING, EpochEntry, EpochHistory, Position
from albireo.model.value import ValueType
from tests.parts.drafted import end_of, frames_of, view_of
from tests.parts.pulled import pulled

STORIES = sorted((Path(__file__).parent / "feed").glob("*.txt"))
LOG = b"P" * 16
WALL = 1_800_000_000 * SECOND
FORCE_JUMP = 2_000_000
QUIET_ROUNDS = 12
"""Of 100 ms each, without a word that matters: longer than two beats of ALIVE."""
ROUNDS_MAX = 100


class Clock:
    def __init__(self) -> None:
        self.now = Instant(5 * SECOND)

    def moment(self) -> Moment:
        return Moment(self.now, WallTime(WALL + self.now))


class Node:
    """A member: a root machine and its log."""

    def __init__(self, clock: Clock, index: int) -> None:
        self.clock = clock
        self.index = index
        self.frames: list[Frame] = []
        self.history = EpochHistory()
        self.sent: list[tuple[bytes, AnyMessage, Sequence[bytes | memoryview]]] = []
        self.appended = 0
        self.root: Root
        self.start(BEGINNING)

    @property
    def end(self) -> Position:
        return end_of(self.frames)

    def committed(self) -> list[Frame]:
        return [one for one in self.frames if one.header.last_sequence <= self.root.folded_to.sequence]

    def start(self, committed: Position) -> None:
        """A new run of CORE: folds by replay, nobody connected."""
        folds = Folds()
        known = [one for one in self.frames if one.header.last_sequence <= committed.sequence]
        for one in known:
            folds.replay(one)
        self.known = committed
        config = RootConfig(node="root", log_id=LOG, segment_bytes=1 << 26)
        self.root = Root(config, folds, committed, self.clock.moment())
        self.step(FramesFollowed(self.frames[len(known) :]))

    def step(self, event: Event) -> Turn:
        moment = self.clock.moment()
        turn = self.root.step(event, view_of(self.frames, self.history, self.known), moment)
        self.sent += [(one.to, one.message, one.raw) for one in turn.sends]
        last = self.frames[-1] if self.frames else None
        added = [sealed(one) for one in frames_of(turn, LOG, last, self.history.epoch, moment)]
        self.frames += added
        if added:
            self.step(FramesAppended(added))
        return turn

    def grant(self, jump: int = 0) -> None:
        above = self.history.epoch + jump + 1
        epoch = above + (above % 2 != self.index)
        kept = tuple(one for one in self.history.entries if one.first_sequence <= self.end.sequence)
        self.history = EpochHistory(kept).granted(EpochEntry(epoch, self.end.sequence + 1, epoch * 7))
        self.step(Granted("story"))
        self.step(Served())

    def commit(self) -> None:
        while self.root.folded_to != self.end:
            self.known = self.end
            self.step(Committed())
            self.step(Answered())
            self.step(WakeUpEnded(0))

    def append(self) -> None:
        self.clock.now = Instant(self.clock.now + 20 * MS)
        self.appended += 1
        self.step(Measured(turn_ms=1.0, log_bytes=self.index * 1_000 + self.appended))
        self.commit()

    def copy(self, other: "Node", *, is_heard: bool) -> None:
        if self.root.role.holds:
            self.step(Deposed("the other one leads"))
        self.history = other.history
        missing = other.frames[len(self.frames) :]
        self.frames += missing
        self.step(FramesFollowed(missing))
        if is_heard:
            self.commit()

    def cut(self, other: "Node") -> None:
        common = self.history.common_point(other.history, self.end.sequence, other.end.sequence)
        self.frames = [one for one in self.frames if one.header.last_sequence <= common]
        self.history = other.history
        self.start(self.end)

    def serve(self) -> None:
        """What the shell does after each turn: read what is asked for, send it."""
        given = []
        for pull in self.step(WakeUpEnded(0)).pulls:
            outcome, data, raw = pulled(self.committed(), pull, self.history.epoch)
            if data is not None:
                self.sent.append((pull.to, data, [raw]))
            given.append(outcome)
        self.step(FollowersServed(given))

    def values(self) -> dict[int, object]:
        """Of every item that has a good one."""
        items = list(self.root.folds.dim)
        readings = zip(items, self.root.folds.readings(items), strict=True)
        return {item.item_id: one.value for item, one in readings if one.value is not None}


def sealed(frame: Frame) -> Frame:
    return Frame(codec.seal(frame.header)[0], frame.body)


class Reader:
    """Whoever follows: what it was given, what it was told."""

    def __init__(self, clock: Clock, name: str) -> None:
        self.clock = clock
        self.name = name.encode()
        mode = "state" if name == "viewer" else "log"
        self.config = FollowerConfig(name=name, mode=mode)
        self.machine = Follower(self.config)
        self.frames: list[Frame] = []
        self.values: dict[int, object] = {}
        self.answer = FeedAnswer(verdict="nothing yet")
        self.noted: list[str] = []
        self.was_cut = False

    def knows(self, position: Position) -> None:
        self.machine = Follower(self.config, position, LOG)

    def meet(self, node: Node) -> None:
        self.noted, self.was_cut = [], False
        self.machine.step(LinkDown(), self.clock.now)
        self.talk(node, self.machine.step(LinkUp(), self.clock.now))

    def talk(self, node: Node, effects: Sequence[object] = ()) -> None:
        said = self.take(effects, ())
        quiet, until = 0, self.clock.now + ROUNDS_MAX * 100 * MS
        while quiet < QUIET_ROUNDS:
            assert self.clock.now < until, "they come to no end"
            self.clock.now = Instant(self.clock.now + 100 * MS)
            matters = any(isinstance(one, FeedHello) for one in said)
            if said:
                node.step(LettersDrained([(self.name, one, (), "local:0") for one in said]))
            node.step(TimePassed())
            if node.root.role.is_serving:
                node.commit()
            node.serve()
            sent, node.sent = node.sent, []
            said = self.take(self.machine.step(TimePassed(), self.clock.now), ())
            for to, message, raw in sent:
                if to == self.name and isinstance(message, FeedAnswer | FeedData | FeedState | FeedAlive):
                    matters |= isinstance(message, FeedData | FeedState)
                    said += self.hear(message, raw)
            is_waiting = self.answer.verdict in ("behind", "refused")
            quiet = 0 if matters and not is_waiting else quiet + 1

    def hear(
        self, message: FeedAnswer | FeedData | FeedState | FeedAlive, raw: Sequence[bytes | memoryview]
    ) -> list[FeedHello | FeedAck]:
        self.answer = message if isinstance(message, FeedAnswer) else self.answer
        size_bytes = sum(len(one) for one in raw)
        return self.take(self.machine.step(Received(message, size_bytes), self.clock.now), raw)

    def take(self, effects: Sequence[object], raw: Sequence[bytes | memoryview]) -> list[FeedHello | FeedAck]:
        said: list[FeedHello | FeedAck] = []
        for effect in effects:
            match effect:
                case TellLeader(message):
                    said.append(message)
                case Deliver(FeedState() as state):
                    self.see(state, raw)
                    said += self.done(state.position)
                case Deliver(FeedData() as data):
                    self.frames += [Frame(header, bytes(body)) for part in raw for header, body in codec.frames(part)]
                    said += self.done(data.last)
                case CutBack(position):
                    self.was_cut = True
                    self.frames = [one for one in self.frames if one.header.last_sequence <= position.sequence]
                case TakeSnapshot():
                    self.was_cut, self.frames, self.values = True, [], {}
                case Noted(event):
                    self.noted.append(event)
        return said

    def done(self, position: Position) -> list[FeedHello | FeedAck]:
        steps = (MadeDurable(position), Digested(position))
        return [said for step in steps for said in self.take(self.machine.step(step, self.clock.now), ())]

    def see(self, state: FeedState, raw: Sequence[bytes | memoryview]) -> None:
        if state.is_snapshot:
            self.values = {}
        for (value_type, count), part in zip(state.value_parts, raw, strict=True):
            batch = samples.decode(memoryview(part), ValueType(value_type), count)
            rows = zip(batch.item_id.tolist(), batch.values(), batch.quality.tolist(), strict=True)
            self.values |= {item_id: value for item_id, value, code in rows if quality.is_good(code)}


class Story:
    def __init__(self) -> None:
        self.clock = Clock()
        self.nodes = {"a": Node(self.clock, 0), "b": Node(self.clock, 1)}
        self.readers = {name: Reader(self.clock, name) for name in ("reader", "newcomer", "history", "viewer")}
        self.marks: dict[str, Position] = {"nothing": BEGINNING}

    def play(self, line: str) -> None:
        nodes = self.nodes
        match line.split():
            case ["lead" | "force" as how, name]:
                nodes[name].grant(FORCE_JUMP if how == "force" else 0)
                nodes[name].commit()
            case ["grant", name]:
                nodes[name].grant()
            case ["commit", name]:
                nodes[name].commit()
            case ["append", name, count]:
                for _ in range(int(count)):
                    nodes[name].append()
            case ["copy", source, ">", target, *unheard]:
                nodes[target].copy(nodes[source], is_heard=not unheard)
            case ["cut", name, "to", other]:
                nodes[name].cut(nodes[other])
            case ["start", name]:
                nodes[name].start(nodes[name].root.folded_to)
            case ["mark", word, name]:
                self.marks[word] = nodes[name].end
            case [reader, "knows", word]:
                self.readers[reader].knows(self.marks[word])
            case [reader, "at", name]:
                self.readers[reader].meet(nodes[name])
            case [reader, "stays", "at", name]:
                self.readers[reader].talk(nodes[name])
            case ["->", *rest]:
                self.check(rest)
            case _:
                pytest.fail(f"not a line of a story: {line}")

    def check(self, words: Sequence[str]) -> None:
        reader = self.readers[words[0]]
        match words[1:]:
            case ["told", verdict]:
                assert reader.answer.verdict == verdict
            case ["told", verdict, word]:
                assert (reader.answer.verdict, reader.answer.position) == (verdict, self.marks[word])
            case ["has", "the", "log", "of", name]:
                node = self.nodes[name]
                wanted = [(one.header, bytes(one.body)) for one in node.committed()]
                assert [(one.header, bytes(one.body)) for one in reader.frames] == wanted
                assert reader.machine.position == node.root.folded_to
            case ["has", "the", "state", "of", name]:
                assert reader.values == self.nodes[name].values()
            case ["noted", word]:
                assert word in reader.noted
            case ["keeps", "all", "it", "had"]:
                assert not reader.was_cut
            case _:
                pytest.fail(f"not a check: {words}")


@pytest.mark.parametrize("path", STORIES, ids=[path.stem for path in STORIES])
def test_story(path: Path) -> None:
    story = Story()
    for number, line in enumerate(path.read_text().splitlines(), 1):
        said = re.sub(r"#.*", "", line).strip()
        if said:
            try:
                story.play(said)
            except AssertionError as error:
                raise AssertionError(f"{path.name}:{number}: {said}\n{error}") from error
