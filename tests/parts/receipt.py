"""A pair of which one stream may be `local`: two root machines, their disks and producers, moved by hand or by a seed.

The root machines and the producers are the real ones. Who leads and what is committed is decided here, by the rules of
the pair in their shortest form: committed is what is on the disks of the whole set; a takeover is for whoever is in it;
who led before is cut to what the new log has.

Judged here, whatever the machines believe
    at each early receipt, that the batches are on the disk of the member that says so;
    at each receipt, that what it calls committed is.
"""

import copy
from collections import deque
from collections.abc import Sequence

import msgspec
import numpy as np

from albireo.codec import record, reference, samples
from albireo.codec.frame import Frame, body_crc
from albireo.codec.message import AnyMessage, Append, Appended, ProducerWelcome, Successor
from albireo.codec.record import GapFound, Kind, ProducerForgotten, ProducerOpened, Stream
from albireo.machine.fold.folds import Folds
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.events import (
    Answered,
    Committed,
    Deposed,
    Durable,
    Event,
    FramesAppended,
    FramesFollowed,
    Granted,
    LettersDrained,
    LogCut,
    PairChanged,
    Served,
    WakeUpEnded,
)
from albireo.machine.kernel.turn import Moment
from albireo.machine.producer.config import ProducerConfig
from albireo.machine.producer.producer import Offered
from albireo.machine.producer.seeking import LineDown, LineUp, SeekConfig
from albireo.machine.producer.sending import Acknowledged, Effects, Heard, PairSender, SayTo, Superseded
from albireo.machine.root.root import Root
from albireo.model.instant import MS, SECOND, Instant, TimePassed, WallTime
from albireo.model.item import DataItem
from albireo.model.log_view import LogView
from albireo.model.position import EpochEntry, EpochHistory, Position
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType
from tests.parts.drafted import end_of, frames_of, view_of

LOG = b"R" * 16
T0 = 1_800_000_000 * SECOND
CONFIG = ProducerConfig(queue_bytes_max=1 << 20)
NAMES = "AB"
LOCAL = frozenset({int(Stream.SAMPLES)})


class Member:
    """One member: a root machine and a disk."""

    def __init__(self, pair: "Pair", index: int) -> None:
        self.pair = pair
        self.index = index
        self.name = NAMES[index]
        self.frames: list[Frame] = []
        self.durable = 0
        """Records that are on the disk."""
        self.committed = 0
        """As this member knows it."""
        self.history = EpochHistory()
        self.is_up = False
        self.start()

    @property
    def end(self) -> Position:
        return end_of(self.frames)

    def at(self, sequence: int) -> Position:
        """Last whole frame up to `sequence`."""
        kept = [one.header.last for one in self.frames if one.header.last_sequence <= sequence]
        return kept[-1] if kept else Position()

    def start(self) -> None:
        """A new process over what the disk has."""
        self.is_up = True
        self.committed = min(self.committed, self.end.sequence)
        known = self.at(self.committed)
        folds = Folds()
        for frame in self.frames:
            if frame.header.last_sequence <= known.sequence:
                folds.replay(self.whole(frame))
        local, private = self.pair.local, LOCAL if self.pair.is_private else frozenset[int]()
        config = RootConfig(node="root", log_id=LOG, member=self.index, local_streams=local, private_streams=private)
        self.root = Root(config, folds, known, self.pair.moment())
        above = [self.whole(one) for one in self.frames if one.header.last_sequence > known.sequence]
        self.step(FramesFollowed(above))

    def view(self) -> LogView:
        return view_of(self.frames, self.history, self.at(self.committed), self.at(self.durable))

    def step(self, event: Event) -> None:
        turn = self.root.step(event, self.view(), self.pair.moment())
        last = self.frames[-1] if self.frames else None
        added = frames_of(turn, LOG, last, self.history.epoch, self.pair.moment(), self.committed)
        self.frames += [self.stored(one) for one in added]
        if added:
            self.step(FramesAppended(added))
        for send in turn.sends:
            self.pair.says(self, send.to, send.message)

    def stored(self, frame: Frame) -> Frame:
        """The frame as it stands in the pair's log: a reference, if the values stay here."""
        header = frame.header
        if not self.pair.is_private or header.stream != Stream.SAMPLES or header.kind == Kind.RECORDS:
            return frame
        place = (self.name.encode() * 16, 1 + len(self.pair.payloads))
        payload = Frame(msgspec.structs.replace(header, log_id=place[0], first_sequence=place[1]), frame.body)
        self.pair.payloads[place] = payload
        body = reference.encode(payload)
        header = msgspec.structs.replace(
            header, kind=int(Kind.REFERENCE), body_bytes=len(body), body_crc=body_crc(body)
        )
        return Frame(header, body)

    def whole(self, frame: Frame) -> Frame:
        """With its payload, if that is here."""
        is_here = reference.is_reference(frame) and reference.decode(frame.body).log_id == self.name.encode() * 16
        return self.pair.whole(frame) if is_here else frame

    def own_values(self) -> list[int]:
        """Every sample whose value is here."""
        return [value for frame in self.frames for value in held(self.whole(frame))]

    def lead(self, *, anew: bool = False) -> None:
        """Epoch granted; with a disk that has everything by then, and a commit that follows."""
        epoch = max(one.history.epoch for one in self.pair.members) + 1
        self.history = self.history.granted(EpochEntry(epoch, self.end.sequence + 1, epoch * 7))
        self.pair.leader = self
        if anew:
            self.pair.set = {self.index}  # Whoever may have more than this one has to be cut first.
        self.step(Granted("test"))
        self.sync()
        self.step(Served())
        while self.durable < self.end.sequence:  # What it says first of its messages follows from serving.
            self.sync()

    def sync(self, frames: int = 1_000_000) -> None:
        """More of the log is on the disk; told as the shell tells it: what is committed by it first."""
        above = [one for one in self.frames if one.header.last_sequence > self.durable][:frames]
        if above:
            self.durable = above[-1].header.last_sequence
        self.pair.commit()
        if self.root.waits_for_disk:
            self.step(Durable())

    def learns(self, position: Position) -> None:
        """What is committed, as far as it is here."""
        if position.sequence > self.committed:
            self.committed = position.sequence
            self.step(Committed())
            self.step(Answered())
            self.step(WakeUpEnded(0))
            while self.root.has_unfolded:
                self.step(Committed())
                self.step(Answered())
                self.step(WakeUpEnded(0))

    def cut_to(self, sequence: int, history: EpochHistory) -> None:
        position = self.at(sequence)
        self.frames = [one for one in self.frames if one.header.last_sequence <= position.sequence]
        self.durable = min(self.durable, position.sequence)
        self.history = history
        self.step(LogCut())

    def values(self, to: int | None = None) -> list[int]:
        """Every sample in the log up to a sequence."""
        return [
            value
            for frame in self.frames
            if to is None or frame.header.last_sequence <= to
            for value in held(self.pair.whole(frame))
        ]

    def gaps(self) -> list[GapFound]:
        """Every gap in the log."""
        records = [
            one
            for frame in self.frames
            if frame.header.kind == Kind.RECORDS
            for one in record.decode_records(frame.body, frame.header.record_count)
        ]
        return [one for one in records if isinstance(one, GapFound)]

    def number_at(self, producer_id: int, to: int) -> int:
        """The last number of a producer up to a sequence."""
        found = [record.decode_producer(one.body) for one in self.frames if one.header.last_sequence <= to]
        return max((number for owner, number in found if owner == producer_id), default=0)


class Life:
    """One life of a program: what it offered, and what it was told."""

    def __init__(self, first: int, run: int) -> None:
        self.first = first
        self.run = run
        self.offered: list[int] = []
        self.told: list[Acknowledged] = []
        self.bodies: dict[tuple[int, int], bytes] = {}
        """By producer id and number: what went out under it."""
        self.acknowledged = 0
        """Batches, of one value each."""
        self.told_in: dict[int, int] = {}
        """By value that was acknowledged early: the epoch of whoever said so."""
        self.is_forced = False
        """A member was forced to lead without what was acknowledged in it."""
        self.by: Successor | None = None
        """Life that it was told has its name now."""


class Program:
    """A producer with a line to each member; it may pause, and die and begin anew."""

    def __init__(self, pair: "Pair", label: str) -> None:
        """`label`: name of the producer, or `label=name`, where several programs have one name."""
        self.pair = pair
        self.label, _, name = label.partition("=")
        self.name = name or self.label
        self.is_paused = False
        self.lives: list[Life] = []
        self.last: tuple[int, AnyMessage, tuple[bytes, ...]] | None = None
        self.lines: list[tuple[deque[tuple[AnyMessage, Sequence[bytes]]], deque[AnyMessage]]] = []
        self.begin()

    @property
    def life(self) -> Life:
        return self.lives[-1]

    @property
    def identity(self) -> bytes:
        return f"{self.label}#{len(self.lives)}".encode()

    def begin(self) -> None:
        """A new process: nothing of the one before is remembered; what that had sent still arrives."""
        self.pair.ghosts += [(self.identity, member, into) for member, (into, _) in enumerate(self.lines)]
        self.pair.runs += 1
        self.lives.append(Life(self.pair.next_value, self.pair.runs))
        self.lines = [(deque(), deque()), (deque(), deque())]
        self.is_paused = False
        items = (DataItem(name=f"{self.name}_number", value_type=ValueType.INT64),)
        self.machine = PairSender(
            self.name, items, run=self.pair.runs, config=CONFIG, seek=SeekConfig(), now=self.pair.now
        )
        for member in self.pair.members:
            if member.is_up:
                self.perform(self.machine.step(LineUp(member.index), self.pair.now))

    def offer(self, count: int = 1) -> None:
        for _ in range(count):
            value = self.pair.next_value
            self.pair.next_value += 1
            self.life.offered.append(value)
            self.perform(self.machine.step(Offered(batches=(batch(value),)), self.pair.now))

    def perform(self, effects: Effects) -> None:
        for effect in effects:
            match effect:
                case SayTo(member, message, raw):
                    self.check_numbers(raw)
                    self.last = (member, message, raw) if isinstance(message, Append) else self.last
                    if member in self.machine.lines:
                        self.lines[member][0].append((message, raw))
                case Acknowledged():
                    self.life.told.append(effect)
                    for value in self.life.offered[self.life.acknowledged : effect.batch]:
                        if effect.may_be_cut:
                            self.life.told_in[value] = effect.position.epoch
                    self.life.acknowledged = effect.batch
                case Superseded(by):
                    assert self.life.by is None, "it is told once"
                    self.life.by = by
                case _:
                    raise AssertionError(effect)

    def check_numbers(self, bodies: Sequence[bytes]) -> None:
        """A number never stands for anything else than before."""
        for body in bodies:
            before = self.life.bodies.setdefault(record.decode_producer(body), body)
            assert before == body, f"{self.name} gives the number {record.decode_producer(body)} twice"

    def repeat(self) -> None:
        """Its last message comes once more."""
        assert self.last is not None
        member, message, raw = self.last
        self.lines[member][0].append((message, raw))

    def reconnect(self) -> None:
        """The line to the member it talks to breaks and is there again; what was said before arrives."""
        member = self.machine.chosen
        assert member is not None
        self.perform(self.machine.step(LineDown(member), self.pair.now))
        self.perform(self.machine.step(LineUp(member), self.pair.now))

    def line(self, member: Member, *, is_up: bool) -> None:
        """Its line to this member ends, or is there again."""
        for messages in self.lines[member.index]:
            messages.clear()
        self.perform(self.machine.step((LineUp if is_up else LineDown)(member.index), self.pair.now))

    def again(self) -> list[SayTo]:
        """What it would say to a member that welcomed it now, and knows nothing that is not committed."""
        machine = copy.deepcopy(self.machine)
        ids = [known for known, _ in self.life.bodies]
        if not ids:
            return []
        chosen = machine.chosen if machine.chosen is not None else 0
        last = self.pair.leader.number_at(ids[0], self.pair.leader.committed)
        welcome = ProducerWelcome(
            producer_id=ids[0],
            last_sequence=last,
            item_ids=(1,),
            epoch=machine.epoch,
            credit_bytes=1 << 20,
            run=self.life.run,
        )
        effects = machine.step(Heard(chosen, welcome), self.pair.now)
        return [one for one in effects if isinstance(one, SayTo) and isinstance(one.message, Append)]

    def hears(self, member: int, count: int = 1_000_000) -> None:
        """What is on its way from a member arrives, unless the program is paused."""
        out = self.lines[member][1]
        for _ in range(0 if self.is_paused else min(count, len(out))):
            self.perform(self.machine.step(Heard(member, out.popleft()), self.pair.now))

    def says(self, member: int, count: int = 1_000_000) -> None:
        """What is on its way to a member arrives."""
        self.pair.arrive(self.identity, member, self.lines[member][0], count)

    def pass_time(self) -> None:
        due = self.machine.deadline()
        if due is not None and self.pair.now >= due and not self.is_paused:
            self.perform(self.machine.step(TimePassed(), self.pair.now))


class Pair:
    """Both members, and who leads."""

    def __init__(
        self, programs: Sequence[str] = ("p",), local: frozenset[int] = LOCAL, *, is_private: bool = False
    ) -> None:
        self.now = Instant(5 * SECOND)
        self.local = local
        self.is_private = is_private
        self.payloads: dict[tuple[bytes, int], Frame] = {}
        """By private log and sequence."""
        self.next_value = 1
        self.runs = 0
        """Runs of programs so far."""
        self.takeovers: list[int] = []
        """Epochs that began with one."""
        self.said: list[tuple[str, Appended]] = []
        """Receipts since somebody last looked."""
        self.ghosts: list[tuple[bytes, int, deque[tuple[AnyMessage, Sequence[bytes]]]]] = []
        """Messages of dead programs to a member."""
        self.programs: list[Program] = []
        self.members: list[Member] = []
        self.members += [Member(self, 0)]
        self.members += [Member(self, 1)]
        self.set: set[int] = {0}
        self.late: set[int] = set()
        """Members that were overtaken and don't know it."""
        self.leader = self.members[0]
        self.leader.lead()
        self.copy()
        self.passive.sync()
        self.join()
        self.programs += [Program(self, name) for name in programs]

    def whole(self, frame: Frame) -> Frame:
        """With its payload, wherever that is."""
        if not reference.is_reference(frame):
            return frame
        meant = reference.decode(frame.body)
        return reference.whole(frame, meant, self.payloads[meant.log_id, meant.sequence].body)

    def moment(self) -> Moment:
        return Moment(self.now, WallTime(T0 + self.now))

    @property
    def passive(self) -> Member:
        return self.members[1 - self.leader.index]

    def commit(self) -> None:
        """Whatever is on every disk of the set; the one that leads learns of it at once."""
        leader = self.leader
        disks = [self.members[one].durable for one in self.set]
        leader.step(PairChanged("active", tuple(sorted(self.set))))
        if leader.root.role.holds:
            leader.learns(leader.at(min(disks)))

    def copy(self, frames: int = 1_000_000) -> None:
        """Frames of the log go to the passive member."""
        other = self.passive
        if not other.is_up or other.index in self.late:
            return
        if other.history != self.leader.history:
            self.meets(other)
        missing = self.leader.frames[len(other.frames) :][:frames]
        if missing:
            other.frames += missing
            other.step(FramesFollowed(missing))
        other.learns(other.at(min(self.leader.committed, other.end.sequence)))

    def meets(self, other: Member) -> None:
        """The passive member hears of the history of the log: it stands down and is cut to what is common."""
        self.late.discard(other.index)
        if other.root.role.holds:
            other.step(Deposed("higher epoch"))
        ends = (other.end.sequence, self.leader.end.sequence)
        other.cut_to(other.history.common_point(self.leader.history, *ends), self.leader.history)

    def join(self) -> None:
        """A passive member that has everything comes into the set."""
        if self.passive.durable == self.leader.end.sequence and self.passive.history == self.leader.history:
            self.set = {0, 1}
            self.commit()

    def takeover(self) -> None:
        """The passive member, in the set, leads; the other one is late until it `meets` the new log."""
        new, old = self.passive, self.leader
        assert new.index in self.set and new.is_up
        self.set = {new.index}
        if old.is_up:
            self.late.add(old.index)
        new.durable = new.end.sequence
        new.lead()
        self.takeovers.append(new.history.epoch)

    def force(self) -> None:
        """A person has the passive member lead with what it has; the machine of the other one is lost for good, and one
        with an empty disk takes its place."""
        old = self.leader
        self.kill(old, power=True)
        self.set.add(self.passive.index)
        self.takeover()
        old.frames, old.durable, old.committed, old.history = [], 0, 0, EpochHistory()
        for program in self.programs:
            program.life.is_forced = True
            program.life.bodies.clear()  # The other log's numbers; only by force may one be given again.

    def kill(self, member: Member, *, power: bool) -> None:
        """Its process ends; with the power goes what was not on the disk."""
        if power:
            kept = member.at(member.durable).sequence
            member.frames = [one for one in member.frames if one.header.last_sequence <= kept]
        member.is_up = False
        self.late.discard(member.index)
        for program in self.programs:
            program.line(member, is_up=False)
        for _, index, into in self.ghosts:
            if index == member.index:
                into.clear()

    def start(self, member: Member) -> None:
        """Its process begins; who led and was not overtaken leads again."""
        member.start()
        member.durable = member.end.sequence
        if member is self.leader:
            member.lead(anew=True)
        for program in self.programs:
            program.line(member, is_up=True)

    def says(self, member: Member, to: bytes, message: AnyMessage) -> None:
        if isinstance(message, Appended):
            self.judge(member, message)
            self.said.append((member.name, message))
        for program in self.programs:
            if program.identity == to and member.index in program.machine.lines:
                program.lines[member.index][1].append(message)

    def judge(self, member: Member, told: Appended) -> None:
        """A receipt, as it leaves."""
        on_disk = member.number_at(told.producer_id, member.durable)
        assert told.producer_sequence <= on_disk, f"{member.name} tells of {told}, its disk has {on_disk}"
        committed = self.leader.number_at(told.producer_id, self.leader.committed)
        assert told.producer_sequence - told.uncommitted <= committed, f"{member.name}: {told}, committed {committed}"
        if told.uncommitted:
            assert (told.durability, told.members) == ("local", (member.index,))

    def arrive(self, identity: bytes, member: int, into: deque[tuple[AnyMessage, Sequence[bytes]]], count: int) -> None:
        node = self.members[member]
        letters = [(identity, *into.popleft(), "local:0") for _ in range(min(count, len(into)))]
        if letters and node.is_up:
            node.step(LettersDrained(letters))

    def talk(self, rounds: int = 6) -> None:
        """Everything said arrives, and what is said to it; nothing is synced."""
        for _ in range(rounds):
            for program in [one for one in self.programs if not one.is_paused]:
                for member in self.members:
                    program.says(member.index)
                    program.hears(member.index)

    def pass_time(self, ns: int) -> None:
        self.now = Instant(self.now + ns)
        for member in self.members:
            if member.is_up:
                member.step(TimePassed())
        for program in self.programs:
            program.pass_time()

    def settle(self) -> None:
        """Everything works from now on, until all is said."""
        for member in self.members:
            if not member.is_up:
                self.start(member)
        for _ in range(200):
            self.copy()
            self.passive.sync()
            self.leader.sync()
            self.join()
            self.copy()
            self.talk(2)
            self.pass_time(50 * MS)

    def check(self) -> list[int]:
        """Nothing doubled, nothing out of order, nothing lost that was told of as committed, save by force; what was
        told of early is lost only by a takeover and with its program. A gap is told of all that is lost. The log
        holds a prefix of each life; each run opened its name once, and one program has it.

        Returns:
            What was acknowledged and is lost.
        """
        lost: list[int] = []
        forgotten = self._check_names()
        stored = self.leader.values(self.leader.committed)
        assert stored == self.passive.values(), "the members differ"
        for program in self.programs:
            for index, life in enumerate(program.lives):
                here = [value for value in stored if value in set(life.offered)]
                assert here == sorted(set(here)), f"{program.name}: doubled or out of order: {here}"
                is_alive = index == len(program.lives) - 1 and program.machine.last_word is None
                whole = life.offered if is_alive else life.offered[: len(here)]
                assert life.is_forced or here == whole, f"{program.label}: offered {life.offered}, stored {here}"
                missing = [one for one in life.offered[: life.acknowledged] if one not in here]
                for value in [] if life.is_forced else missing:
                    assert value in life.told_in, f"{value} was committed, and is lost"
                    later = [one for one in self.takeovers if one > life.told_in[value]]
                    assert later, f"{value} is lost without a takeover"
                if missing and program.name not in forgotten:
                    self._check_gap(program.name, life, missing)
                lost += missing
        return lost

    def _check_names(self) -> set[str]:
        """No run of a program opened its name twice, nothing of a life stands behind the opening of the next, and
        whoever opened a name last has it: the others of that name have stopped. Of a name that was forgotten nothing
        stands behind that; its programs have stopped, or have nothing left to say.

        Returns:
            Names that were ever forgotten: nobody knows since when the next life of one has a gap.
        """
        opened: dict[int, ProducerOpened] = {}
        forgotten: set[str] = set()
        present: dict[str, ProducerOpened] = {}
        for frame in self.leader.frames:
            number, _ = record.decode_producer(frame.body)
            assert not number or present.get(opened[number].name) == opened[number], f"{number} goes on: {present}"
            if frame.header.kind == Kind.RECORDS:
                for one in record.decode_records(frame.body, frame.header.record_count):
                    if isinstance(one, ProducerOpened):
                        assert one.run not in [before.run for before in opened.values()], (
                            f"a name was taken back: {one}"
                        )
                        assert one.producer_id not in opened, f"a number is given twice: {one}"
                        opened[one.producer_id] = present[one.name] = one
                    if isinstance(one, ProducerForgotten):
                        del present[one.name]
                        forgotten.add(one.name)
        for program in self.programs:
            life, word = program.life, program.machine.last_word
            has_name = program.name in present and present[program.name].run == life.run
            is_done = program.name in forgotten and life.acknowledged == len(life.offered)
            assert (word is None) if has_name else (word is not None or is_done), f"{program.label}: {word}, {present}"
        return forgotten

    def _check_gap(self, name: str, life: Life, missing: list[int]) -> None:
        """Behind the last that is left of this life, and before anything of the next one, stands a gap.

        Where programs share the name, another may have counted on meanwhile: the gap stands anywhere behind.
        """
        of_producer: list[int | str] = []
        ids = set()
        for frame in self.leader.frames:
            if frame.header.kind == Kind.RECORDS:
                for one in record.decode_records(frame.body, frame.header.record_count):
                    if isinstance(one, ProducerOpened) and one.name == name:
                        ids.add(one.producer_id)
                    if isinstance(one, GapFound) and one.source == name:
                        of_producer.append("gap")
            elif record.decode_producer(frame.body)[0] in ids:
                of_producer += held(self.whole(frame))
        is_shared = sum(program.name == name for program in self.programs) > 1
        known = set(life.offered) if is_shared else set(range(missing[0]))
        before = [one for one in of_producer if one in known and isinstance(one, int) and one < missing[0]]
        start = of_producer.index(before[-1]) + 1 if before else 0
        end = None if is_shared else start + 1
        assert "gap" in of_producer[start:end], f"{missing} are lost without a gap: {of_producer}"


def batch(value: int) -> SampleBatch:
    times = np.full(1, T0 + value, np.int64)
    return SampleBatch(
        value_type=ValueType.INT64,
        item_id=np.zeros(1, np.uint32),
        source_ns=times,
        node_ns=times,
        value=np.array([value], np.int64),
        quality=np.zeros(1, np.uint32),
    )


def held(frame: Frame) -> list[int]:
    """Values of the samples in a frame of a program."""
    producer_id, _ = record.decode_producer(frame.body)
    if not producer_id or frame.header.kind in (Kind.RECORDS, Kind.REFERENCE):
        return []
    return [
        int(value) for value in samples.decode_body(frame.body, frame.header.kind, frame.header.record_count).values()
    ]
