"""Hostile frames at a CHP server: the decoders give a DecodeError or a value, and the machine goes on serving."""

import contextlib
from collections import Counter
from random import Random

import pytest

from albireo.codec.chp import decode, decode_order, decode_request, time_to_live_s
from albireo.codec.errors import DecodeError
from albireo.machine.chp.server import RequestReceived, SetReceived
from albireo.model.instant import MS
from tests.parts.chp import ChpWorld
from tests.parts.fuzz_message import mutated

pytestmark = pytest.mark.slow

ROUNDS = 30_000
REQUEST = [b"ICANHAZ?", b"/site/a/"]
UPDATE = [b"/site/co", bytes(8), bytes(range(16)), b"ttl=2.5\nother=x\n", b"12.5"]


def shaken(seed: list[bytes], random: Random) -> list[bytes]:
    """Frames changed, dropped, doubled, swapped."""
    frames = [mutated(one, random) if random.random() < 0.3 else one for one in seed]
    for _ in range(random.randrange(2)):
        at = random.randrange(len(frames) + 1)
        match random.randrange(3):
            case 0:
                frames.insert(at, random.randbytes(random.randrange(20)))
            case 1 if frames:
                del frames[at % len(frames)]
            case _:
                random.shuffle(frames)
    return frames


def test_decoders() -> None:
    random = Random(20261123)
    seen: Counter[str] = Counter()
    for _ in range(ROUNDS):
        for work, seed in ((decode_request, REQUEST), (decode, UPDATE)):
            try:
                work(shaken(seed, random))
                seen["taken"] += 1
            except DecodeError:
                seen["refused"] += 1
        with contextlib.suppress(DecodeError):
            decode_order(mutated(b'[{"a":-1.5e3}]', random))
        with contextlib.suppress(DecodeError):
            decode_order(random.randbytes(random.randrange(6)))
        found = time_to_live_s(mutated(b"ttl=2.5\nx=1\n", random))
        assert found is None or 0 < found <= 3600
    assert min(seen["taken"], seen["refused"]) > ROUNDS / 4


def test_the_server_serves_in_the_middle_of_noise() -> None:
    random = Random(20261124)
    world = ChpWorld(is_set_allowed=True)
    world.tell({"co": 1.0, "a/x": 2.0}, 1, is_whole=True)
    for turn in range(3_000):
        stranger = random.randbytes(random.randrange(1, 9))
        world.gone.add(stranger)
        world.step(RequestReceived(stranger, shaken(REQUEST, random)))
        world.step(SetReceived(shaken(UPDATE, random)))
        if turn % 100 == 0:
            world.pass_time(1100 * MS)
            world.tell({"co": float(turn)}, 2 + turn)
    client = world.join(b"client")
    world.ask(client)
    world.pass_time(100 * MS)
    assert client.map == world.truth()
    assert all(0 < one.expires_s <= 3600 for one in world.orders)
    refused = world.server.describe()
    assert refused["request_malformed"] > 100
    assert refused["set_malformed"] > 100
    assert len(world.notes) < 200, "a flood of refusals is no flood of notes"
