"""Receipt stories: what programs are told of batches of a stream that may be `local`; real machines.

    both | private | programs NAME ...    in the first lines: no stream is local; samples stay with the member that
                                  took them; other programs than `p` (`b=p`: a program `b` of the producer `p`)
    p offers N                    batches of one value each: 1, 2, 3... over all programs
    p says it again | p reconnects | p dies | p loses B | p finds B
    p pauses | p wakes            it hears nothing and says nothing; what it said before arrives when it wakes
    -> p is superseded | p goes on
    A syncs [one]                 everything in its log is on its disk; one frame more of it is
    copy [N]                      frames of the log go to the passive member
    takeover | power NAME | kill NAME | start NAME | A is suspended | B leaves the set
    A learns                      that it was overtaken
    force                         the passive member leads with what it has; the machine of the other one is replaced
    +50ms | talk | settle         settle: everything works, until all is said
    -> A says N [DURABILITY] [uncommitted M], ...     receipts since the line before, all of this member's, in order
    -> p told N DURABILITY [may be cut], ...          the same for what the program hears of its batches
    -> p keeps VALUES | nothing                       what it has not let go of
    -> gaps NAME N, ...                               gap records, and how many samples they say are lost
    -> A has VALUES | stored VALUES | lost VALUES     log of a member; of both, committed; acknowledged and gone

Besides, at each receipt: the disk has what is told, and what is called committed is. No number stands for two bodies.
"""

import re
from pathlib import Path

import pytest

from albireo.codec import samples
from albireo.codec.message import Append, Appended
from albireo.codec.record import Kind
from albireo.machine.kernel.events import Suspended
from albireo.machine.producer.sending import Acknowledged
from albireo.model.instant import MS
from tests.parts.receipt import LOCAL, NAMES, Member, Pair, Program

STORIES = sorted((Path(__file__).parent / "receipts").rglob("*.txt"))


class Story:
    """Plays one transcript."""

    def __init__(self, head: list[str]) -> None:
        names = next((line.split()[1:] for line in head if line.startswith("programs")), ["p"])
        local = frozenset[int]() if {"both", "private"} & set(head) else LOCAL
        self.pair = Pair(names, local, is_private="private" in head)
        self.pair.settle()
        self.pair.said.clear()
        self.programs = {one.label: one for one in self.pair.programs}
        self.told: dict[str, int] = dict.fromkeys(self.programs, 0)

    def member(self, name: str) -> Member:
        return self.pair.members[NAMES.index(name)]

    def play(self, line: str) -> None:
        self.pair.talk()
        pair, words = self.pair, line.split()
        match words:
            case ["copy", *count]:
                pair.copy(*map(int, count))
            case ["takeover"]:
                pair.takeover()
            case ["force"]:
                pair.force()
            case ["talk"]:
                pass
            case ["settle"]:
                pair.settle()
            case ["B", "leaves", "the", "set"]:
                pair.set = {pair.leader.index}
            case [wait] if wait.startswith("+"):
                pair.pass_time(int(wait[1:].removesuffix("ms")) * MS)
            case ["kill" | "power" as how, name]:
                pair.kill(self.member(name), power=how == "power")
            case ["start", name]:
                pair.start(self.member(name))
            case [("A" | "B") as name, *what]:
                self.of_member(self.member(name), " ".join(what))
            case [name, *what]:
                self.of_program(self.programs[name], what)
        for program in pair.programs:
            for member in pair.members if not program.is_paused else ():
                program.says(member.index)

    def of_member(self, member: Member, what: str) -> None:
        match what:
            case "syncs":
                member.sync()
            case "syncs one":
                member.sync(1)
            case "learns":
                self.pair.meets(member)
            case "is suspended":
                member.step(Suspended("its lease is over"))
            case _:
                pytest.fail(f"no such line: {what}")

    def of_program(self, program: Program, what: list[str]) -> None:
        match what:
            case ["offers", count]:
                program.offer(int(count))
            case ["says", "it", "again"]:
                program.repeat()
            case ["reconnects"]:
                program.reconnect()
            case ["loses" | "finds" as how, name]:
                program.line(self.member(name), is_up=how == "finds")
            case ["dies"]:
                program.begin()
                self.told[program.label] = 0
            case ["pauses" | "wakes" as how]:
                program.is_paused = how == "pauses"
            case _:
                pytest.fail(f"no such line: {what}")

    def holds(self, expected: str) -> None:
        """One line: all that was said or told since the one before, or what there is."""
        wanted = expected.split(", ")
        subject, verb = wanted[0].split()[:2]
        if verb == "says":
            found = [one for one in self.pair.said if one[0] == subject]
            self.pair.said = [one for one in self.pair.said if one not in found]
            assert wanted == ([f"{subject} says {said(one)}" for _, one in found] or [f"{subject} says nothing"])
            return
        if verb == "told":
            self.pair.talk()
            found_told = [f"{name} told {told(one)}" for name in self.programs for one in self.news(name)]
            assert wanted == (found_told or [f"{subject} told nothing"])
            return
        if subject == "gaps":
            found_gaps = [f"{gap.source} {gap.lost}" for gap in self.pair.leader.gaps()]
            assert wanted == [f"gaps {one}" for one in found_gaps]
            return
        for one in wanted:
            self.is_so(one)

    def is_so(self, one: str) -> None:
        subject, verb, *rest = one.split()
        if verb == "keeps":
            self.pair.talk()
            assert rest == (kept(self.programs[subject]) or ["nothing"])
        elif subject in self.programs and verb in ("is", "goes"):
            self.pair.talk()
            assert (self.programs[subject].life.by is not None) is (verb == "is"), one
        elif verb == "has":
            there = self.member(subject).own_values() if self.pair.is_private else self.member(subject).values()
            assert rest == (list(map(str, there)) or ["nothing"])
        else:
            found = self.pair.check()
            found = found if subject == "lost" else self.pair.leader.values(self.pair.leader.committed)
            assert [verb, *rest] == (list(map(str, found)) or ["nothing"])

    def news(self, name: str) -> list[Acknowledged]:
        found = self.programs[name].life.told[self.told[name] :]
        self.told[name] += len(found)
        return found


def said(one: Appended) -> str:
    return f"{one.producer_sequence} {one.durability}" + f" uncommitted {one.uncommitted}" * bool(one.uncommitted)


def told(one: Acknowledged) -> str:
    return f"{one.batch} {one.durability}" + " may be cut" * one.may_be_cut


def kept(program: Program) -> list[str]:
    """Values that would go out again after a takeover."""
    found: list[str] = []
    for send in program.again():
        assert isinstance(send.message, Append)
        for entry, body in zip(send.message.entries, send.raw, strict=True):
            assert entry.kind != Kind.RECORDS
            rows = samples.decode_body(body, entry.kind, entry.record_count)
            found += [str(value) for value in rows.values()]
    return found


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story(path: Path) -> None:
    lines = [line for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
    head = [line for line in lines if re.fullmatch(r"both|private|programs .*", line)]
    story = Story(head)
    for line in lines[len(head) :]:
        if line.startswith("-> "):
            story.holds(line.removeprefix("-> "))
        else:
            story.play(line)
