"""Pair stories: text transcripts of one fault after the other, played on the real machines in the seeded world.

One file per row of *What may be promised* (design/pair.md). A story is played in each column that its first line names:

    play witness plc three            one witness | one PLC with plain registers | three witnesses
    fast                              a closed port is noticed (rule 12)
    plc: LINE                         this line only in that column; `witness three: LINE` in these

`active` and `passive` are the members that had these roles when the story began, whatever they become.

    power NAME | kill NAME | start NAME | pause NAME DURATION | hang NAME DURATION
    forge NAME                        a network device says that its port is closed
    cut path NUMBER DURATION          one cable between the members
    cut NAME NAME DURATION            both ways; `cut NAME > NAME DURATION` one way; also of `voters`, `client`, `all`
    heal                              every cable is whole again
    lose voter | zero voter | rewind voter | stop voter | start voter         the first one of the list
    switchover NAME | stop NAME | force NAME
    old disk NAME | damaged disk NAME | cloned disk NAME | empty disk NAME    while it is down
    late write NAME DURATION          an output write of this member's epoch, checked now and sent then
    slow write NAME DURATION          one that is sent now and lands then
    level NAME NUMBER                 feature level of the software that it starts with from now on; 1 at first
    devices mute                      they carry out what they get, and answer nothing
    mark                              gaps and counts begin here
    +1500ms                           time passes
    until NAME STATE within DURATION

    -> NAME STATE, NAME STATE ...     states now; `down` when its process does not run
    -> gap within DURATION            longest time without an acknowledgement since the mark
    -> acks go on | acks stopped      in the last 300 ms
    -> epoch same | epoch higher      than at the mark, of the member that leads
    -> set both | set passive ...     confirmed set of the member that leads
    -> level NUMBER                   feature level of the log, at every member that runs
    -> case NAME | refused REASON     told since the mark
    -> stop REASON                    why the last candidacy of either was withdrawn
    -> lost 0 | lost some             acknowledged facts that nobody has any more
    -> refused writes some | stale plain N | stamp holds
    -> violated TEXT                  the world saw what must never happen: this row is one that is not covered

At every event, besides: nothing acknowledged is lost or doubled at any holder, and two members never act at once.
"""

import re
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from albireo.machine.pair.events import ForceAsked, MemberStopAsked, SwitchoverAsked
from albireo.model.instant import MS, SECOND
from albireo.sim.engine.stage import Violation
from albireo.sim.machines.parts import EMPTY_DISK, DiskImage
from albireo.sim.machines.stage import MemberNode
from albireo.sim.machines.swarm import PairSwarm
from albireo.sim.machines.world import PairWorld
from tests.long_form import IS_LONG

STORIES = sorted((Path(__file__).parent / "pair").rglob("*.txt"))
COLUMNS = {"witness": (1, 0), "plc": (1, 1), "three": (3, 0)}
SEEDS = range(3 if IS_LONG else 1)
RECENT_NS = 300 * MS


def ns_of(text: str) -> int:
    found = re.fullmatch(r"\+?(\d+)(ms|s)", text)
    assert found is not None, f"{text!r} is no duration"
    return int(found[1]) * (MS if found[2] == "ms" else SECOND)


class Story:
    """Plays one transcript in one column."""

    def __init__(self, column: str, *, is_fast: bool, seed: int) -> None:
        voters, plcs = COLUMNS[column]
        swarm = PairSwarm(voters=voters, plcs=plcs, fast=is_fast, delay_ms=0.5, batch_every_ms=10.0, noticed=1.0)
        self.world = PairWorld(seed, swarm, is_verbose=True)
        assert self.world.agenda.play_until(10 * SECOND, self.world.stage.is_well)
        self.world.agenda.play_until(self.world.agenda.at + SECOND)
        self.active = next(node for node in self.world.members if node.is_holder)
        self.passive = self.world.members[1 - self.active.index]
        self.voter = self.world.stage.config.voters[0]
        self.old_store = getattr(self.world.voters.witnesses.get(self.voter), "store", None)
        self.mark()

    def mark(self) -> None:
        self.marked_at = self.world.agenda.at
        self.marked_trace = len(self.world.trace)
        self.marked_epoch = self.epoch()
        self.world.stage.refused.clear()
        self.refused_writes = self.world.outputs.refused

    def epoch(self) -> int:
        return max((n.machine.holder.epoch for n in self.world.members if n.is_up and n.machine.holder), default=0)

    def node(self, name: str) -> MemberNode:
        return {"active": self.active, "passive": self.passive}[name]

    def ends(self, name: str) -> list[str]:
        """Names of the world that a word of the story stands for."""
        if name == "all":
            return ["A", "B", "client", *self.world.stage.config.voters]
        if name == "voters":
            return list(self.world.stage.config.voters)
        return [name if name == "client" else self.voter if name == "voter" else self.node(name).name]

    def play(self, line: str) -> None:
        words = line.split()
        match words:
            case [wait] if wait.startswith("+"):
                self.world.agenda.play_until(self.world.agenda.at + ns_of(wait))
            case ["mark"]:
                self.mark()
            case ["heal"]:
                self.world.network.heal()
            case ["until", name, state, "within", limit]:
                self.until(name, state, ns_of(limit))
            case ["cut", one, ">", other, duration]:
                self.cut(self.ends(one), self.ends(other), ns_of(duration))
            case ["cut", "path", path, duration]:
                self.world.network.cut_both("A", "B", ns_of(duration) / MS, int(path))
            case ["cut", one, other, duration]:
                self.cut(self.ends(one), self.ends(other), ns_of(duration))
                self.cut(self.ends(other), self.ends(one), ns_of(duration))
            case [what, "voter"]:
                self.voter_is(what)
            case [kind, "disk", name]:
                self.disk_is(kind, self.node(name))
            case ["late", "write", name, duration]:
                self.late_write(self.node(name), ns_of(duration))
            case ["slow", "write", name, duration]:
                lands = partial(self.world.outputs.plain_lands, self.epoch(), False)
                self.world.outputs.leaves(self.node(name), ns_of(duration) / MS, lands)
            case ["level", name, number]:
                self.node(name).feature_level = int(number)
            case ["devices", "mute"]:
                self.world.outputs.is_mute = True
            case [what, name, *rest]:
                self.member_is(what, self.node(name), ns_of(rest[0]) if rest else 0)
            case _:
                pytest.fail(f"no such line: {line}")

    def until(self, name: str, state: str, limit_ns: int) -> None:
        node = self.node(name)
        done = self.world.agenda.play_until(self.world.agenda.at + limit_ns, lambda: self.state(node) == state, every=1)
        assert done, f"{name} is {self.state(node)}, not {state}, after {limit_ns / MS:.0f} ms"

    def cut(self, sources: list[str], targets: list[str], for_ns: int) -> None:
        for source in sources:
            for target in targets:
                self.world.network.cut(source, target, for_ns / MS)

    def member_is(self, what: str, node: MemberNode, for_ns: int) -> None:
        world = self.world
        match what:
            case "power" | "kill":
                world.shell.stop(node, keeps_cache=what == "kill")
            case "start":
                world.shell.start(node)
            case "pause":
                node.paused_until = world.agenda.at + for_ns
            case "hang":
                node.hung_until = world.agenda.at + for_ns
            case "switchover":
                node.deliver(SwitchoverAsked("story"))
            case "stop":
                node.deliver(MemberStopAsked())
            case "forge":
                other, run = world.members[1 - node.index], node.machine.own.run
                world.shell.tell_gone(other, run)
            case "force":
                world.stage.is_forced = True
                node.deliver(ForceAsked())
            case _:
                pytest.fail(f"no such fault: {what}")

    def voter_is(self, what: str) -> None:
        world = self.world
        if self.voter in world.voters.plcs:
            plc = world.voters.plcs[self.voter]
            if what in ("lose", "zero"):
                plc.forget()
            elif what == "start":
                world.network.heal()
            else:
                self.cut(["A", "B"], [self.voter], 3600 * SECOND)
            return
        node = world.voters.witnesses[self.voter]
        if what == "start":
            world.voters.start(node)
        elif what == "stop":
            node.is_up = False
        else:
            node.store = self.old_store if what == "rewind" else None
            world.voters.start(node)

    def disk_is(self, kind: str, node: MemberNode) -> None:
        assert not node.is_up, "a disk is exchanged while the machine is off"
        other, half = self.world.members[1 - node.index], len(node.log) // 2
        match kind:
            case "old":
                node.restored(DiskImage(tuple(node.log[:half]), node.header), node.store)
            case "damaged":
                node.restored(DiskImage(tuple(node.log[:half]), node.header), node.store)
                node.is_damaged = True
            case "cloned":
                node.restored(other.saved(), other.store)
            case _:
                node.restored(EMPTY_DISK, "an empty store")
        self.world.stage.shield(10_000)

    def late_write(self, node: MemberNode, wait_ns: int) -> None:
        """The host pauses between the check of the permit and the send."""
        outputs, permit = self.world.outputs, node.machine.permit(node.local(self.world.agenda.at))
        assert permit is not None
        at, epoch = self.world.agenda.at + wait_ns, permit.epoch
        self.world.agenda.call_at(at, partial(outputs.guarded, epoch))
        outputs.hangs(node, wait_ns / MS, partial(outputs.stamp_lands, epoch))
        outputs.hangs(node, wait_ns / MS, partial(outputs.plain_lands, epoch, True))

    def state(self, node: MemberNode) -> str:
        return node.machine.state.value if node.is_up else "down"

    def holds(self, text: str) -> str:
        """What is the case instead; empty if the expectation holds."""
        world, words = self.world, text.split()
        match words:
            case ["gap", "within", limit]:
                gap = self.gap()
                return "" if gap <= ns_of(limit) else f"gap {gap / MS:.0f} ms"
            case ["acks", *rest]:
                goes_on = any(at >= world.agenda.at - RECENT_NS for at in world.ledger.acknowledged.values())
                return "" if goes_on == (rest == ["go", "on"]) else f"acks {'go on' if goes_on else 'stopped'}"
            case ["epoch", which]:
                return "" if (self.epoch() > self.marked_epoch) == (which == "higher") else f"epoch {self.epoch()}"
            case ["set", which]:
                return self.set_is(which)
            case ["level", number]:
                found_levels = {node.machine.own.log_level for node in world.members if node.is_up}
                return "" if found_levels == {int(number)} else f"levels {found_levels}"
            case ["case", name]:
                told = [line for line in world.trace[self.marked_trace :] if f"case {name} on" in line]
                return "" if told else f"no case {name}"
            case ["stop", reason]:
                found = {node.machine.candidate.last_stop for node in world.members if node.is_up}
                return "" if reason in found else f"stop {found}"
            case ["lost", which]:
                return "" if bool(world.ledger.lost) == (which == "some") else f"lost {world.ledger.lost[:5]}"
            case ["refused", "writes", count]:
                found_count = world.outputs.refused - self.refused_writes
                return "" if bool(found_count) == (count == "some") else f"refused {found_count} writes"
            case ["stale", "plain", count]:
                return "" if world.outputs.stale_plain == int(count) else f"stale plain {world.outputs.stale_plain}"
            case ["stamp", "holds"]:
                return "" if world.outputs.stamp == self.epoch() else f"stamp {world.outputs.stamp}"
            case ["refused", reason]:
                return "" if world.stage.refused[reason] else f"refused {dict(world.stage.refused)}"
            case [name, state]:
                return "" if self.state(self.node(name)) == state else f"{name} {self.state(self.node(name))}"
        return pytest.fail(f"no such expectation: {text}")

    def set_is(self, which: str) -> str:
        leading = next(node.machine.holder for node in self.world.members if node.is_holder)
        assert leading is not None
        wanted = (0, 1) if which == "both" else (self.node(which).index,)
        return "" if leading.changes.confirmed == wanted else f"set {leading.changes.confirmed}"

    def gap(self) -> int:
        times = sorted({at for at in self.world.ledger.acknowledged.values() if at > self.marked_at})
        marks = [self.marked_at, *times, self.world.agenda.at]
        return max(later - earlier for earlier, later in pairwise(marks))


def lines_of(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]


def played_in(path: Path) -> list[str]:
    return lines_of(path)[0].split()[1:]


CASES = [(path, column) for path in STORIES for column in played_in(path)]


@pytest.mark.parametrize(("path", "column"), CASES, ids=lambda one: one.stem if isinstance(one, Path) else one)
@pytest.mark.parametrize("seed", SEEDS)
def test_story(path: Path, column: str, seed: int) -> None:
    lines = lines_of(path)[1:]
    story = Story(column, is_fast="fast" in lines, seed=seed)
    violated = next((line[len("-> violated ") :] for line in lines if line.startswith("-> violated ")), "")
    if violated:
        with pytest.raises(Violation, match=violated):
            tell(story, column, lines)
        return
    tell(story, column, lines)
    story.world.ledger.check_end()


def tell(story: Story, column: str, lines: list[str]) -> None:
    for line in lines:
        only = re.match(r"((?:witness|plc|three)(?: (?:witness|plc|three))*): ", line)
        if only and column not in only[1].split():
            continue
        text = line[only.end() :] if only else line
        if text.startswith("-> "):
            for one in text[3:].split(", "):
                wrong = "" if one.startswith("violated") else story.holds(one)
                assert not wrong, f"expected {one!r}: {wrong}\n" + "\n".join(story.world.trace[-25:])
        elif text != "fast":
            story.play(text)


def test_there_is_a_story_for_each_row_that_the_machines_can_show() -> None:
    """Rows without one: a clock jump (no machine reads wall time), a lying disk; `local`: test_receipt_stories.py."""
    assert len(STORIES) >= 20
    assert {column for _, column in CASES} == set(COLUMNS)
