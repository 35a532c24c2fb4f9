"""CHP: commands go round trip, and any mix of changes, slow clients, losses and outages ends with equal maps."""

from hypothesis import given, settings
from hypothesis import strategies as st

from albireo.codec.chp import KEY_BYTES_MAX, PROPERTIES_BYTES_MAX, KeyValue, decode, encode
from albireo.machine.chp.answering import PATIENCE_NS
from albireo.machine.chp.server import REPEAT_NS, ROUND, SourceLost
from albireo.model.instant import MS
from tests.parts.chp import ChpWorld

commands = st.builds(
    KeyValue,
    key=st.binary(min_size=1, max_size=KEY_BYTES_MAX),
    sequence=st.integers(0, 2**64 - 1),
    uuid=st.sampled_from([b"", bytes(range(16))]),
    properties=st.binary(max_size=100) | st.just(b"x" * PROPERTIES_BYTES_MAX),
    value=st.binary(max_size=300),
)


@given(commands)
def test_round_trip(command: KeyValue) -> None:
    frames = encode(command)
    assert [type(one) for one in frames] == [bytes] * 5
    assert decode(frames) == command
    assert decode([memoryview(one) for one in frames]) == command


NAMES = ["a/x", "a/y", "b/x", "b/y", "c"]
names = st.sampled_from(NAMES)
values = st.dictionaries(names, st.integers(0, 9).map(float), min_size=1)
client_names = st.sampled_from([b"one", b"two", b"three"])
steps = st.one_of(
    st.tuples(st.just("tell"), values),
    st.tuples(st.just("whole"), values),
    st.tuples(st.just("retire"), names),
    st.tuples(st.just("silent")),
    st.tuples(st.just("ask"), client_names, st.sampled_from([b"", b"/site/a/", b"/site/b/"])),
    st.tuples(st.just("repeat"), client_names),
    st.tuples(st.just("room"), client_names, st.none() | st.integers(0, 3)),
    st.tuples(st.just("lose"), client_names, st.integers(1, 3)),
    st.tuples(st.just("wait"), st.sampled_from([0, 10, 30, 1_000, 11_000])),
)


class Played:
    """A world in which any of these steps happen."""

    def __init__(self, subtrees: tuple[bytes, ...]) -> None:
        self.world = ChpWorld(subtrees)
        self.sequence = 1
        self.retired: set[str] = set()
        self.is_silent = True

    def play(self, step: tuple[object, ...]) -> None:
        world = self.world
        match step:
            case ["tell", dict() as values] if not self.is_silent:
                self.sequence += 1
                world.tell({key: one for key, one in values.items() if key not in self.retired}, self.sequence)
            case ["whole", dict() as values]:
                self.sequence += 1
                self.is_silent = False
                self.retired.clear()
                world.tell(values, self.sequence, is_whole=True)
            case ["retire", str() as name] if not self.is_silent and world.knows(name):
                self.sequence += 1
                self.retired.add(name)
                world.tell({}, self.sequence, retired=(name,))
            case ["silent"]:
                self.is_silent = True
                world.step(SourceLost())
            case ["ask", bytes() as name, bytes() as subtree]:
                client = world.clients.get(name) or world.join(name, subtree)
                client.subtree = subtree
                client.forget()
                world.ask(client)
            case ["repeat", bytes() as name] if name in world.clients:
                world.ask(world.clients[name])
            case ["room", bytes() as name, room] if name in world.clients:
                assert room is None or isinstance(room, int)
                world.clients[name].room = room
            case ["lose", bytes() as name, int() as count] if name in world.clients:
                world.clients[name].loses = count
            case ["wait", int() as wait_ms]:
                world.pass_time(wait_ms * MS)


@given(st.lists(steps, max_size=40), st.sampled_from([(), (b"/site/a/",), (b"/site/a/", b"/site/b/")]))
@settings(deadline=None)
def test_whatever_happens_maps_are_equal_in_the_end(
    played: list[tuple[object, ...]], served: tuple[bytes, ...]
) -> None:
    """Each snapshot is compared with the publications on the way, by the world."""
    story = Played(served)
    story.play(("whole", {"a/x": 1.0}))
    for step in played:
        story.play(step)
    world = story.world
    story.play(("whole", {"a/x": 3.0, "b/y": 4.0}))
    for client in world.clients.values():
        client.room, client.loses = None, 0
    world.pass_time(PATIENCE_NS)
    for client in world.clients.values():
        if client.sequence is None:
            world.ask(client)
    world.pass_time(2 * ROUND * REPEAT_NS)
    for client in world.clients.values():
        assert client.map == {key: value for key, value in world.truth().items() if key.startswith(client.subtree)}
        assert client.sequence is not None
