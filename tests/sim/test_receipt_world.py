"""A pair with a local stream, from a seed: what was told early is lost only by a takeover, with its program, and a gap.

The machines that say and keep are the real ones (tests/parts/receipt.py). A seed moves them: disks are slow, frames
reach the other member late, members lose power, are overtaken and don't know it, programs lose their lines and die.

A failure prints the seed: `pytest tests/sim -k "receipts and seed-17"` plays it again.
"""

import msgspec
import pytest

from albireo.codec.message import Appended
from albireo.machine.desk.receipts import Receipts
from albireo.machine.desk.role import Batch
from albireo.machine.kernel.events import Durable
from albireo.machine.producer.producer import Producer, SendToCore
from albireo.model.instant import Instant
from albireo.model.log_view import LogView
from tests.long_form import check_caught, some
from tests.parts.receipt import LOCAL, Member
from tests.parts.receipt_world import World

SEEDS = some(range(150), 8)
STEPS = 150


def play(seed: int, *, local: frozenset[int] = LOCAL) -> tuple[World, list[int]]:
    world = World(seed, local=local)
    for _ in range(STEPS):
        world.step()
    return world, world.settle()


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed-{seed}")
def test_receipts_hold(seed: int) -> None:
    play(seed)


def test_the_world_shows_both_what_is_cut_and_what_is_sent_again() -> None:
    """Otherwise it would prove nothing: tails with a living program are stored, tails that died with it are lost."""
    lost = told_early = 0
    for seed in range(30):
        world, found = play(seed)
        lost += len(found)
        told_early += sum(len(life.told_in) for one in world.pair.programs for life in one.lives)
    assert lost > 0
    assert told_early > 10 * lost


def test_without_a_local_stream_nobody_is_told_early() -> None:
    for seed in range(10):
        world, lost = play(seed, local=frozenset())
        assert not lost
        assert not any(life.told_in for one in world.pair.programs for life in one.lives)


def caught(seeds: range) -> int | None:
    """Return the first seed that ends badly; None if none of them does."""
    for seed in seeds:
        try:
            play(seed)
        except AssertionError:
            return seed
    return None


def test_told_before_the_sync_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    sync, view = Member.sync, Member.view

    def written(self: Member) -> LogView:
        return msgspec.structs.replace(view(self), durable=self.end)

    def told_first(self: Member, frames: int = 1_000_000) -> None:
        """Told is what was written, not what the disk has."""
        if self.root.waits_for_disk:
            self.step(Durable())
        sync(self, frames)

    monkeypatch.setattr(Member, "view", written)
    monkeypatch.setattr(Member, "sync", told_first)
    check_caught(caught, 0, range(50))


def test_a_producer_that_lets_go_at_the_early_receipt_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    appended = Producer._appended

    def let_go(self: Producer, event: Appended, now: Instant) -> list[SendToCore]:
        return appended(self, msgspec.structs.replace(event, uncommitted=0), now)

    monkeypatch.setattr(Producer, "_appended", let_go)
    check_caught(caught, 2, range(50))


def test_an_early_receipt_that_calls_everything_committed_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def early(self: Receipts, producer_id: int, batch: Batch) -> Appended:
        return self._role.receipt(producer_id, batch)

    monkeypatch.setattr(Receipts, "_early", early)
    check_caught(caught, 0, range(50))
