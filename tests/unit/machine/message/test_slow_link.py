"""Bodies over a link that is far and slow, with a scripted clock: how often they are carried, and what passes them."""

from collections.abc import Callable

import msgspec

from albireo.codec.tree.letters import BodyAsked, BodySent, TreeMessage
from albireo.machine.message.body_ways import BodyWays
from albireo.model.instant import MS
from albireo.model.tree.message import PIECE_BYTES, SMALL_BYTES, Life, MessageName
from tests.parts.messages import MessageTree

TOP, SITE = "root", "root/north"
STEP_MS = 10


class SlowLink:
    """A link that carries so many bytes a second each way, one letter after the other."""

    def __init__(self, tree: MessageTree, bytes_per_s: int, one_way_ms: int) -> None:
        self.tree = tree
        self.carried = 0
        """Bytes of bodies."""
        self.asked: list[BodyAsked] = []
        self.is_cut = False
        self._bytes_per_s, self._one_way_ms = bytes_per_s, one_way_ms
        self._free_at = {TOP: 0, SITE: 0}
        self._under_way: list[tuple[int, str, TreeMessage]] = []

    def run(self, seconds: float, is_done: Callable[[], object] = lambda: False) -> float:
        """Let time pass; the seconds that it took."""
        for step in range(int(seconds * 1000 / STEP_MS)):
            if is_done():
                return step * STEP_MS / 1000
            self._take()
            due = [one for one in self._under_way if one[0] <= self.tree.now]
            self._under_way = [one for one in self._under_way if one[0] > self.tree.now]
            for _, to, letter in due:
                self.tree.hear(to, letter)
            self.tree.pass_ms(STEP_MS)
        return seconds

    def _take(self) -> None:
        letters, self.tree.letters = self.tree.letters, []
        for sender, to, letter in letters:
            if self.is_cut:
                continue
            size = len(msgspec.msgpack.encode(letter))
            self.carried += len(letter.piece) if isinstance(letter, BodySent) else 0
            self.asked += [letter] if isinstance(letter, BodyAsked) else []
            begin = max(self._free_at[sender], self.tree.now)
            self._free_at[sender] = begin + size * 1000 * MS // self._bytes_per_s
            self._under_way.append((self._free_at[sender] + self._one_way_ms * MS, to, letter))


def test_a_body_of_120_kb_is_carried_little_more_than_once_over_20_kb_a_second() -> None:
    tree = MessageTree(TOP, SITE)
    link = SlowLink(tree, 20_000, 300)
    tree[TOP].ask(SITE, body=bytes(120_000), expires_ms=60_000)
    took = link.run(60, lambda: tree[SITE].orders)
    assert took < 25
    assert link.carried < 1.3 * 120_000


def test_on_a_far_and_fast_link_a_body_is_not_slow() -> None:
    tree = MessageTree(TOP, SITE)
    link = SlowLink(tree, 10_000_000, 300)
    tree[TOP].ask(SITE, body=bytes(8 * PIECE_BYTES), expires_ms=60_000)
    assert link.run(60, lambda: tree[SITE].orders) < 15


def test_an_order_passes_bodies_and_they_take_turns() -> None:
    tree = MessageTree(TOP, SITE)
    link = SlowLink(tree, 20_000, 300)
    for number in range(3):
        tree[TOP].ask(SITE, body=bytes(100_000), expires_ms=120_000, command_id=f"large {number}")
    link.run(10)
    assert {one.name.number for one in link.asked} == {1, 2, 3}, "each has its turn"
    tree[TOP].ask(SITE, body=b"1.5", expires_ms=10_000, command_id="order")
    took = link.run(10, lambda: [one for one in tree[SITE].orders if one.body == b"1.5"])
    assert took < 5


def test_one_piece_of_large_bodies_is_on_its_way_at_a_time() -> None:
    tree = MessageTree(TOP, SITE)
    for number in range(5):
        tree[TOP].ask(SITE, body=bytes(10 * SMALL_BYTES), command_id=f"large {number}")
    told, tree.letters = tree.letters, []
    for _, to, letter in told:
        tree.hear(to, letter)
    assert sum(isinstance(letter, BodyAsked) for _, _, letter in tree.letters) == 1


def test_after_a_cut_a_body_goes_on_where_it_was() -> None:
    """The cut is longer than questions are repeated, so the fetch was given up."""
    tree = MessageTree(TOP, SITE)
    link = SlowLink(tree, 20_000, 300)
    tree[TOP].ask(SITE, body=bytes(120_000), expires_ms=600_000)
    link.run(6)
    before = link.carried
    link.is_cut = True
    link.run(180)
    link.is_cut, link.asked[:] = False, []
    link.run(120, lambda: tree[SITE].orders)
    assert [len(one.body) for one in tree[SITE].orders] == [120_000]
    assert link.asked[0].offset >= before // 2, "what was there is not asked for again"
    assert link.carried < 1.5 * 120_000


def test_who_asks_in_vain_is_told_how_much_had_left() -> None:
    tree = MessageTree(TOP, SITE)
    link = SlowLink(tree, 5_000, 300)
    tree[TOP].ask(SITE, body=bytes(120_000), expires_ms=5_000)
    link.run(60, lambda: tree[TOP].answers)
    (receipt,) = tree[TOP].answers
    assert "of 120000 bytes of its body had left in time" in receipt.end.detail


def test_names_whose_bodies_never_come_take_no_place() -> None:
    """An origin that tells of messages and never sends one, as over a link that carries one way only."""
    ways = BodyWays("root", 1 << 20)
    for number in range(1_000):
        ways.put_aside(MessageName("root/north", "root", Life(1), number), bytearray())
    kept = MessageName("root/north", "root", Life(1), 1_000)
    ways.put_aside(kept, bytearray(b"part"))
    assert len(ways._kept) == 1 and ways.taken_up(kept) == b"part"
