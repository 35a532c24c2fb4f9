"""A send that fails takes the descriptor's signal with it, as one that succeeds does: whoever waits must be told."""

import select

import zmq

from albireo.codec.message import Answer, Ask
from albireo.runtime.link.link import LinkLimits
from albireo.runtime.link.sockets import Link, Sockets, new_identity

WAIT_MS = 90_000


def test_a_letter_that_comes_before_a_send_to_nobody_is_not_forgotten() -> None:
    """A drill hung on it: all clients of a member waited for ever, because its last send to one that had gone swallowed
    the signal of their letters, and a socket signals once only until it is read."""
    sockets = Sockets()
    asked: list[Link] = []
    try:
        bound = sockets.router(LinkLimits())
        bound.bind("tcp://127.0.0.1:*")
        link = sockets.keep(Link("clients", b"", bound, 0))
        link.on_sent = asked.append
        peer = sockets.dealer(LinkLimits(), new_identity("peer"))
        peer.connect(bound.getsockopt_string(zmq.LAST_ENDPOINT))
        client = sockets.keep(Link("peer", b"peer", peer, 0))
        assert link.drain(10, 1 << 20).is_empty
        signals = select.poll()
        signals.register(link.descriptor(), select.POLLIN)

        client.send(Ask(request_id=1, what="status"))
        while not link.has_input():  # The connection itself signals too; from here on only letters do.
            assert signals.poll(WAIT_MS)
        assert len(link.drain(10, 1 << 20).letters) == 1
        client.send(Ask(request_id=2, what="status"))
        assert signals.poll(WAIT_MS), "the second letter is there"
        assert link.send(Answer(request_id=1), to=b"gone") is False
        assert asked == [link], "the owner looks again"
        assert link.has_input()
    finally:
        sockets.close(lingers=False)
