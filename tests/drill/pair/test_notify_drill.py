"""Notification over a takeover: the member whose face just sends a mail is killed before anybody knows whether it left.

The mail server takes the text and does not answer. By then the notice is on record as leaving, at both members; the
other member's face sends it again, under the same Message-ID and with the words that it may come twice. What was sent
and answered before is not sent again.
"""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from albireo.client import SampleProducer, connect
from albireo.model.item import AlarmSettings, DataItem
from albireo.model.samples import SampleBatch
from albireo.model.value import ValueType
from albireo.runtime.clock import wall_ns
from tests.parts.notify import MailServer, mail_server
from tests.parts.process_pair import MEMBERS, VOTERS, Pair, until

pytestmark = [pytest.mark.drill, pytest.mark.slow]

FACE = '[[node.face]]\nname = "night"\nkind = "notify"\nrules = "{file}"\n'
RULES = """[smtp]
host = "127.0.0.1"
port = {port}
tls = "none"
sender = "scada@plant.example"
[[rule]]
name = "all"
roster = "roster.csv"
items = ["co_*"]
"""
ITEMS = [DataItem(name=f"co_{n}", value_type=ValueType.FLOAT64, alarm=AlarmSettings(hi=40.0)) for n in range(2)]


@contextlib.contextmanager
def mails_taken() -> Iterator[MailServer]:
    """A mail server in a thread of its own."""
    begun, found = threading.Event(), list[MailServer]()
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()

    async def serve() -> None:
        async with mail_server() as server:
            found.append(server)
            begun.set()
            await ended.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    begun.wait()
    try:
        yield found[0]
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()


def set_to(producer: SampleProducer, *values: float) -> None:
    now = np.full(len(values), wall_ns())
    ids = np.arange(len(values), dtype=np.uint32)
    batch = SampleBatch(
        value_type=ValueType.FLOAT64,
        item_id=ids,
        source_ns=now,
        node_ns=now,
        value=np.array(values),
        quality=np.zeros(len(values), np.uint32),
    )
    producer.offer([batch])
    until(lambda: producer.flush(1.0), lambda: "on record")


def test_a_mail_under_way_as_the_member_dies_comes_again_and_says_so(tmp_path: Path) -> None:
    with mails_taken() as server:
        (tmp_path / "roster.csv").write_text("name,kind,address,order\nAnna,mail,anna@plant.example,1\n")
        (tmp_path / "notify.toml").write_text(RULES.format(port=server.port))
        pair = Pair(tmp_path, adapters=FACE.format(file=tmp_path / "notify.toml"))
        try:
            pair.start(*VOTERS, *MEMBERS)
            until(lambda: pair.run("pair", "init", member="primary")[0] == 0, lambda: "begun")
            acting = pair.acting()
            with connect(pair.home) as client, client.producer("plc", ITEMS) as producer:
                set_to(producer, 50.0, 0.0)
                until(lambda: len(server.mails) == 1, lambda: "the first mail")
                store = client.store("notify.night")
                until(lambda: any(b'"outcome":"sent"' in store[key] for key in store.keys()), lambda: "its outcome")
                server.answers["."] = "HANG"
                set_to(producer, 50.0, 50.0)
                until(lambda: len(server.mails) == 2, lambda: "the second mail")
                pair.kill(acting)
                server.answers.clear()
                until(lambda: len(server.mails) == 3, lambda: f"again; {pair.states()}")
                until(lambda: all(b'"outcome":"sent"' in store[key] for key in store.keys()), lambda: "all outcomes")
                client.ack_all("seen")
                until(lambda: not store.keys(), lambda: "no notice is left on record")
        finally:
            pair.end()
    first, second, again = server.mails
    assert (first["Subject"], second["Subject"]) == ("[low] root:co_0 hi", "[low] root:co_1 hi")
    assert again["Message-ID"] == second["Message-ID"] != first["Message-ID"]
    assert again["Subject"] == f"{second['Subject']} (may come twice)"
