"""The door's machine: when it answers, which message counts as read, and its bounds."""

from random import Random

from albireo.face.pubsub.door import (
    OPEN_MAX,
    READERS_MAX,
    SETTLE_NS,
    STALL_NS,
    AnswerClient,
    Effect,
    FetchMessage,
    ForgetReader,
    PerformRequest,
    PubsubDoor,
    TellDropped,
)
from albireo.face.pubsub.words import PubsubRequest
from albireo.model.instant import MS, Instant

PATIENCE_NS = 2_000 * MS
LOOK_NS = 100 * MS
PUT = PubsubRequest("PUT", "news", message=b"x")
NEWS = PubsubRequest("GET", "news", "1")
GET = b"GET FROM 1 ON TOPIC : news"


class World:
    """A door, its time, and requests of peers."""

    def __init__(self) -> None:
        self.door = PubsubDoor(PATIENCE_NS)
        self.now = Instant(10**12)

    def look(self, *letters: list[bytes], leads: bool = True, is_empty: bool = True) -> list[Effect]:
        self.now = Instant(self.now + LOOK_NS)
        return self.door.looked(letters, self.now, leads=leads, is_empty=is_empty)

    def ask(self, text: bytes, peer: bytes = b"a") -> list[Effect]:
        return self.look([peer, b"", text])

    def fetched(self, answer: bytes | None, reading: PubsubRequest = NEWS) -> list[Effect]:
        return self.door.fetched(reading, answer, self.now)

    def left(self, reading: PubsubRequest = NEWS) -> None:
        self.door.answer_left(reading, self.now)

    def passes(self, nanoseconds: int) -> list[Effect]:
        ends, found = self.now + nanoseconds, list[Effect]()
        while self.now < ends:
            found += self.look()
        return found


def opened() -> World:
    world = World()
    world.look()
    assert world.door.is_open
    return world


def test_only_the_door_of_the_member_that_leads_answers() -> None:
    world = World()
    assert world.look([b"a", b"", b"PUT news x"], leads=False) == [] and not world.door.is_open
    assert world.look([b"a", b"", b"PUT news old"]) == [], "it lay there as the member began to lead"
    assert world.ask(b"PUT news x") == [PerformRequest(1, PUT)]
    assert world.look([b"a", b"", b"PUT news x"], leads=False) == []
    assert world.look([b"a", b"", b"PUT news x"]) == []
    assert world.ask(b"PUT news x") == [PerformRequest(2, PUT)]


def test_a_full_socket_is_thrown_away_up_to_its_end_and_a_flood_does_not_keep_the_door_closed() -> None:
    world = World()
    assert world.look([b"a", b"", GET], is_empty=False) == world.look([b"a", b"", GET]) == []
    assert world.ask(GET) == [FetchMessage(NEWS, is_read=False)]
    flooded = World()
    while not flooded.door.is_open:
        assert flooded.look([b"a", b"", GET], is_empty=False) == []
    assert flooded.now - 10**12 <= PATIENCE_NS + 2 * LOOK_NS


def test_what_came_while_the_process_stood_still_is_thrown_away() -> None:
    world = opened()
    world.now = Instant(world.now + STALL_NS)
    assert world.ask(b"PUT news x") == []
    assert world.ask(b"PUT news x") == [PerformRequest(1, PUT)]


def test_an_answer_that_is_late_or_unknown_is_not_given() -> None:
    world = opened()
    for number in (1, 2, 3):
        world.ask(b"PUT news x")
        if number == 2:
            world.passes(PATIENCE_NS + LOOK_NS)
        said = world.door.performed(number, None if number == 3 else b"ACK", world.now)
        assert said == ([AnswerClient(b"a", b"ACK")] if number == 1 else [])


def test_a_message_counts_as_read_once_its_answer_left() -> None:
    world = opened()
    assert world.ask(GET) == [FetchMessage(NEWS, is_read=False)]
    assert world.fetched(b"one") == [AnswerClient(b"a", b"one", NEWS)]
    assert world.ask(GET, b"b") == [FetchMessage(NEWS, is_read=False)], "it did not leave: the same again"
    assert world.fetched(b"one") == [AnswerClient(b"b", b"one", NEWS)]
    world.left()
    assert world.ask(GET, b"c") == [FetchMessage(NEWS, is_read=True)], "with the next one"
    assert world.fetched(b"two") == [AnswerClient(b"c", b"two", NEWS)]
    world.left()
    assert world.passes(SETTLE_NS - LOOK_NS) == []
    assert world.passes(2 * LOOK_NS) == [FetchMessage(NEWS, is_read=True, is_wanted=False)], "or a moment later"
    assert world.fetched(b"") == world.passes(2 * SETTLE_NS) == []
    assert world.ask(GET) == [FetchMessage(NEWS, is_read=False)]


def test_what_could_not_be_put_on_record_is_tried_again() -> None:
    world = opened()
    world.ask(GET)
    world.fetched(b"one")
    world.left()
    settle = FetchMessage(NEWS, is_read=True, is_wanted=False)
    assert world.passes(SETTLE_NS) == [settle]
    assert world.fetched(None) == []
    assert world.passes(SETTLE_NS) == [settle]
    assert world.ask(GET, b"b") == [], "under way"
    assert world.fetched(b"") == [FetchMessage(NEWS, is_read=False)]
    assert world.fetched(b"two") == [AnswerClient(b"b", b"two", NEWS)]


def test_a_message_goes_to_whom_of_its_reader_asked_last_and_not_to_who_gave_up() -> None:
    world = opened()
    world.ask(GET)
    assert world.ask(GET, b"again") == []
    assert world.fetched(b"one") == [AnswerClient(b"again", b"one", NEWS)]
    world.ask(GET)
    world.passes(PATIENCE_NS + LOOK_NS)
    assert world.fetched(b"one") == []
    assert world.ask(GET, b"later") == [FetchMessage(NEWS, is_read=False)], "nobody was given it"


def test_readers_are_forgotten_as_the_door_closes() -> None:
    world = opened()
    world.ask(GET)
    assert world.look(leads=False) == [ForgetReader(NEWS)]
    assert world.fetched(b"one") == []
    world.left()
    world.look()
    assert world.ask(GET) == [FetchMessage(NEWS, is_read=False)]


def test_bounds() -> None:
    world = opened()
    effects = world.look(*([b"a", b"", b"PUT news x"] for _ in range(OPEN_MAX + 1)))
    assert len(effects) == OPEN_MAX + 1 and isinstance(effects[-1], TellDropped)
    gets = [[b"a", b"", b"GET FROM %d ON TOPIC : news" % number] for number in range(READERS_MAX + 1)]
    assert sum(isinstance(one, FetchMessage) for one in world.look(*gets[:-1])) == READERS_MAX
    assert world.look(gets[-1]) == [TellDropped(f"{READERS_MAX} readers are busy")]
    world.fetched(b"one", PubsubRequest("GET", "news", "7"))
    last = PubsubRequest("GET", "news", str(READERS_MAX))
    assert world.look(gets[-1]) == [ForgetReader(PubsubRequest("GET", "news", "7")), FetchMessage(last, is_read=False)]


def test_any_parts_are_answered_or_dropped() -> None:
    world = opened()
    assert isinstance(world.look([b"a"])[0], TellDropped)
    assert isinstance(world.look([b"a", b"PUT news x"])[0], TellDropped)
    assert world.look([b"a", b""]) == world.look([b"a", b"", b"PUT", b"news"])
    random = Random(20261127)
    for _ in range(2_000):
        parts = [random.choice([b"", GET, b"PUT news x", random.randbytes(9)]) for _ in range(random.randrange(5))]
        assert len(world.look([b"a", *parts])) <= 1
