"""Both kinds of client: what they are asked is written once, and means the same."""

import inspect
from typing import Any

from albireo.client.aio import AsyncClient
from albireo.client.client import Client

BY_HAND = {
    *("read", "watch", "inbox", "follow_state", "producer", "consumer", "close", "converse"),
    *("topics", "store", "transaction"),
}
"""Methods that wait in a way of their own."""
OF_THREADS = {"send_file", "receive_file"}
"""Methods that read or write a disk."""


def public(kind: type) -> dict[str, object]:
    return {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}


def test_each_method_that_asks_is_one_function_for_both() -> None:
    threads, loop = public(Client), public(AsyncClient)
    assert threads.keys() - loop.keys() == OF_THREADS
    assert loop.keys() <= threads.keys()
    assert {name for name in loop if loop[name] is not threads[name]} == BY_HAND


def test_a_method_shows_its_signature_and_words() -> None:
    write: Any = getattr(Client, "write")  # noqa: B009  # A type checker knows it of an instance only.
    assert list(inspect.signature(write).parameters) == ["self", "item", "value", "reason", "expires_s", "selection"]
    for name, method in public(AsyncClient).items():
        assert inspect.getdoc(method), name
