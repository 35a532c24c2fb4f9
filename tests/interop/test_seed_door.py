"""The door of the first publish/subscribe: its unchanged client at a real node, and peers that mean no good."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
import zmq

from albireo.client import connect
from tests.parts.foreign import ForeignSockets
from tests.parts.port import free_ports
from tests.parts.process_pair import ALBIREO, ENVIRONMENT
from tests.parts.seed_client import SeedClient
from tests.parts.waiting import PATIENCE_S, awaited

pytestmark = pytest.mark.slow

NEWS = b"news"


@contextmanager
def lone(home: Path, port: int) -> Iterator[Path]:
    """A node with a door; ends well, though it was sent whatever it was sent."""
    topology, data = home / "plant.toml", home / "data"
    topology.write_text(
        'cluster = "11111111-2222-3333-4444-555555555555"\n[[node]]\nid = "root"\n'
        f'[[node.face]]\nname = "door"\nkind = "pubsub"\nbind = "tcp://127.0.0.1:{port}"\n'
    )
    command = [*ALBIREO, "node", "run", "--topology", str(topology), "--data", str(data)]
    with (home / "node.log").open("wb") as said:
        process = subprocess.Popen(command, env=ENVIRONMENT, stdout=said, stderr=said)
    try:
        yield data
    finally:
        process.terminate()
        assert process.wait(PATIENCE_S) == 0


def test_the_unchanged_client_and_peers_that_mean_no_good(tmp_path: Path) -> None:
    port, dead = free_ports(2)
    door = f"tcp://127.0.0.1:{port}"
    with lone(tmp_path, port) as data, ForeignSockets() as foreign:
        quick = SeedClient([door], 5556, 700, 50)
        assert quick.put(NEWS, b"nobody reads") == b"ACK [SUCCESS]: PUT is DONE", "a topic is made at its first use"
        quick.close()
        client = SeedClient([f"tcp://127.0.0.1:{dead}", door], 5556)
        refused = client.ask(b"GET FROM 5556 ON TOPIC : news")
        assert refused.startswith(b"ACK [FAILURE]: 'pubsub.5556' has no subscription to news")
        assert client.subscribe(NEWS) == client.subscribe(NEWS) == b"ACK [SUCCESS]: SUBSCRIBE is DONE"
        assert client.get(NEWS) is None
        for body in (b"door open", b"\xff\x00 \n", b""):
            assert client.put(NEWS, body) == b"ACK [SUCCESS]: PUT is DONE"
        assert [client.get(NEWS) for _ in range(4)] == [b"door open", b"\xff\x00 \n", b"", None]
        for body in (b"read", b"fetched, and not given"):
            assert client.put(NEWS, body) == b"ACK [SUCCESS]: PUT is DONE"
        assert client.get(NEWS) == b"read"
        with connect(data, timeout_s=PATIENCE_S) as admin:
            awaited(lambda: admin.topics.readers("news")[0].unread == 1)
        assert client.unsubscribe(NEWS) == b"ACK [SUCCESS]: UNSUBSCRIBE is DONE"
        assert client.ask(b"GET FROM 5556 ON TOPIC : news") == refused
        assert client.subscribe(NEWS) == b"ACK [SUCCESS]: SUBSCRIBE is DONE"
        random = Random(20261127)
        dealers = [foreign.open(zmq.DEALER, door, SNDHWM=20_000) for _ in range(3)]
        for parts in (
            [b"PUT news x"],
            [b""],
            [b"", b"PUT", b"news", b"x"],
            [b"", b"PUT \xff x"],
            [b"", b"PUT a\x07 x"],
        ):
            dealers[0].send_multipart(parts)
        for _ in range(2_000):
            parts = [random.choice([b"", b"PUT news x", random.randbytes(30)]) for _ in range(random.randrange(1, 9))]
            dealers[1].send_multipart(parts)
        dealers[1].send_multipart([b"", bytes(2 << 20)])
        with socket.create_connection(("127.0.0.1", port)) as raw:
            raw.sendall(random.randbytes(4_000))
        for number in range(5_000):  # None of its answers is ever read.
            dealers[2].send_multipart([b"", b"GET FROM %d ON TOPIC : news" % (number % 1_500)])
        assert client.put(NEWS, b"after all") == b"ACK [SUCCESS]: PUT is DONE"
        while client.get(NEWS) != b"after all":  # Puts of the flood come before.
            pass
        assert client.unsubscribe(NEWS) == b"ACK [SUCCESS]: UNSUBSCRIBE is DONE"
        assert client.ask(b"GET FROM 5556 ON TOPIC : news") == refused
        assert client.unsubscribe(NEWS).startswith(b"ACK [FAILURE]: ")
        with connect(data, timeout_s=PATIENCE_S) as admin:
            actors: Any = admin.ask("actors", of="boot")
            (face,) = [one for one in actors if one["name"] == "face.door"]
            assert (face["state"], face["restarts"]) == ("running", 0), face
        client.close()
