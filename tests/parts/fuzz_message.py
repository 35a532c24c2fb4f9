"""Parts that tests share: mutated and random node messages and records."""

from random import Random


def mutated(seed: bytes, random: Random) -> bytes:
    """`seed` with one to five bytes changed, added or taken away."""
    data = bytearray(seed)
    for _ in range(random.randrange(1, 6)):
        at = random.randrange(len(data) + 1)
        match random.randrange(3):
            case 0 if at < len(data):
                data[at] = random.randrange(256)
            case 1:
                data.insert(at, random.randrange(256))
            case _:
                del data[at : at + 1]
    return bytes(data)
