"""CHP stories: the machine of a server and clients by the letter of RFC 12.

    serves /a/ /b/                    in the first lines: these subtrees only; `allows sets`: KVSETs are orders
    node is at N with x=1 y=2         it is heard, and tells everything; `at N x=1 -y`: changes, y is retired
    node is silent
    c joins [with room N]             a client that reads no more than so many commands of a snapshot
    c asks [/a/] | c repeats          it subscribes, and sends ICANHAZ; once more, keeping what it has
    c reads | c loses N | c ends      it reads all the time; its next N publications get lost; it is gone
    set KEY VALUE [ttl=S] [uuid]      a KVSET; `uuid` gives it one; VALUE - is empty
    order ends OUTCOME                of the oldest order
    port P frames ...                 any frames at port P (ask, set), as hexadecimal numbers, `-` is empty
    +500ms
    -> c has /a/x=1 ... [up to N+M]   its map, and its number: M above that of position N
    -> c waits                        for the end of its snapshot
    -> c heard N HUGZ                 since the line before
    -> published /a/x=1 ... | nothing    since the line before, with deletions as /a/x=
    -> orders NAME=VALUE ID SECONDS | nothing
    -> noted WHAT ...                 since the line before
    -> counts NAME=N ...

Besides, each snapshot is compared with what the publications up to its number make.
"""

import re
from pathlib import Path

import pytest

from albireo.machine.chp.mirror import SEQUENCES_PER_RECORD
from albireo.machine.chp.server import OrderFinished, RequestReceived, SetReceived, SourceLost
from albireo.model.instant import MS
from tests.parts.chp import ChpWorld, Map, value_in

STORIES = sorted((Path(__file__).parent / "chp").glob("*.txt"))
UUID = bytes(range(16))


def told(found: Map) -> list[str]:
    return sorted(
        f"{key.decode()}={value_in(value):g}" if value else f"{key.decode()}=" for key, value in found.items()
    )


class ChpStory:
    """Plays one transcript."""

    def __init__(self, head: list[str]) -> None:
        served = next((line.split()[1:] for line in head if line.startswith("serves")), [])
        subtrees = tuple(one.encode() for one in served)
        self.world = ChpWorld(subtrees, is_set_allowed="allows sets" in head)
        self.hugs: dict[str, int] = {}
        self.published = self.ordered = self.noted = 0

    def play(self, line: str) -> None:
        world, words = self.world, line.split()
        match words:
            case ["node", "is", "silent"]:
                world.step(SourceLost())
            case ["node", "is", "at", sequence, "with", *values]:
                world.tell(dict(map(_pair, values)), int(sequence), is_whole=True)
            case ["node", "at", sequence, *values]:
                retired = tuple(one[1:] for one in values if one.startswith("-"))
                kept = [one for one in values if not one.startswith("-")]
                world.tell(dict(map(_pair, kept)), int(sequence), retired=retired)
            case ["set", key, value, *more]:
                properties = "".join(f"{one}\n" for one in more if "=" in one).encode()
                body = b"" if value == "-" else value.encode()
                world.set(key.encode(), bytes(8), UUID if "uuid" in more else b"", properties, body)
            case ["order", "ends", outcome]:
                world.step(OrderFinished(world.orders[-1].item, outcome))
            case ["port", "ask", "frames", *frames]:
                world.step(RequestReceived(b"stranger", _frames(frames)))
            case ["port", "set", "frames", *frames]:
                world.step(SetReceived(_frames(frames)))
            case [wait] if wait.startswith("+"):
                world.pass_time(int(wait[1:].removesuffix("ms")) * MS)
            case [name, *what]:
                self.of_client(name, what)

    def of_client(self, name: str, what: list[str]) -> None:
        world, key = self.world, name.encode()
        match what:
            case ["joins", *room]:
                world.join(key).room = int(room[-1]) if room else None
            case ["asks", *subtree]:
                client = world.clients[key] if key in world.clients else world.join(key)
                client.subtree = subtree[0].encode() if subtree else b""
                client.forget()
                world.ask(client)
            case ["repeats"]:
                world.ask(world.clients[key])
            case ["reads"]:
                world.clients[key].room = None
            case ["loses", count]:
                world.clients[key].loses = int(count)
            case ["ends"]:
                world.gone.add(key)
            case _:
                raise AssertionError(what)

    def answer(self, line: str) -> str:
        """What `line` says, as it is."""
        world, words = self.world, line.split()
        match words:
            case ["counts", *named]:
                found = world.server.describe()
                return " ".join(
                    ["counts", *(f"{one.split('=')[0]}={found.get(one.split('=')[0], 0)}" for one in named)]
                )
            case ["published", *_]:
                history, self.published = world.history[self.published :], len(world.history)
                return " ".join(["published", *(told({one.key: one.value})[0] for one in history)] or ["nothing"])
            case ["orders", *_]:
                orders, self.ordered = world.orders[self.ordered :], len(world.orders)
                said = [f"{one.item}={one.value!r} {one.command_id or '-'} {one.expires_s:g}" for one in orders]
                return " ".join(["orders", *(said or ["nothing"])])
            case ["noted", *_]:
                notes, self.noted = world.notes[self.noted :], len(world.notes)
                return " ".join(["noted", *([one.what for one in notes] or ["nothing"])])
            case [name, "heard", *_]:
                client = world.clients[name.encode()]
                count, self.hugs[name] = client.hugs - self.hugs.get(name, 0), client.hugs
                return f"{name} heard {count} HUGZ"
            case [name, "waits"]:
                return f"{name} waits" if world.clients[name.encode()].sequence is None else f"{name} is synchronised"
            case [name, "has", *_]:
                client = world.clients[name.encode()]
                if client.sequence is None:
                    return f"{name} waits"
                upto = "{}+{}".format(*divmod(client.sequence, SEQUENCES_PER_RECORD))
                values = told(client.map) or ["nothing"]
                return " ".join([name, "has", *values, *(["up", "to", upto] if "up" in words else [])])
        raise AssertionError(line)


def _pair(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    return name, float(value)


def _frames(texts: list[str]) -> list[bytes]:
    return [b"" if one == "-" else bytes.fromhex(one) for one in texts]


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story(path: Path) -> None:
    lines = [line for raw in path.read_text().splitlines() if (line := re.sub(r"\s*#.*", "", raw).strip())]
    head = [line for line in lines if line == "allows sets" or line.startswith("serves ")]
    story = ChpStory(head)
    for line in lines[len(head) :]:
        if line.startswith("-> "):
            said = line.removeprefix("-> ")
            assert story.answer(said) == said, line
        else:
            story.play(line)


def test_there_are_stories() -> None:
    assert len(STORIES) >= 7
