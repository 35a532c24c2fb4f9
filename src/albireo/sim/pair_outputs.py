"""Outputs of the simulated pair: one PLC for each guard level, written by whoever holds a permit.

    plc    guard logic refuses lower epochs; a gate does the same at another place
    stamp  the value and [epoch, count] in one write; the active polls the stamp and writes again what it lost
    lease  plain registers: a write starts only while `write_max` of the lease is left, and lands within it or never

Checked: a guarded PLC never applies a lower epoch after a higher one; a lost stamp is written again; plain registers
see a stale write only from a host that paused between its check and its send (counted, and told as weaker).

Spec: design/pair.md, Guard levels of outputs; rules 4, 10, 11, 12.
"""

from functools import partial
from typing import TYPE_CHECKING, Final

from albireo.model.instant import MS
from albireo.sim.pair_parts import MemberNode

if TYPE_CHECKING:
    from albireo.sim.pair import World

WRITE_EVERY_MS: Final = 20
WRITE_MAX_MS: Final = 100
"""TCP_USER_TIMEOUT of an output connection, and how long a PLC may keep a write in its queue."""
POLL_MS: Final = 60


class Outputs:
    """What the PLCs applied, and what they should not have."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.guard = 0
        self.refused = 0
        self.stamp = 0
        self.stamps_lost = 0
        """Stale writes of the stamped output; each is seen within a poll."""
        self.plain = 0
        self.stale_plain = 0
        """Stale writes of plain registers, all of hosts that paused between check and send."""
        self.under_way = {"A": 0, "B": 0}
        """When the last write of each member lands: one connection, so in order."""
        self.stamped: set[tuple[str, int]] = set()
        self._write()
        self._poll()

    def _holders(self) -> list[tuple[MemberNode, int, int]]:
        """Members with a permit now: epoch, and what of the lease is left in ms."""
        found = []
        for node in self.world.members:
            if node.is_leading and self.world.at >= node.paused_until:
                now = node.local(self.world.at)
                permit = node.machine.permit(now)
                if permit is not None:
                    found.append((node, permit.epoch, (permit.not_after - now) // MS))
        return found

    def _write(self) -> None:
        chance, world = self.world.chance, self.world
        for node, epoch, left_ms in self._holders():
            late_ms = chance.choice((0.5, 0.5, 5.0, 900.0))
            world.after_ms(late_ms, partial(self.guarded, epoch))
            if (node.name, epoch) not in self.stamped:
                self.stamped.add((node.name, epoch))
                world.after_ms(late_ms, partial(self.stamp_lands, epoch))
            if left_ms >= WRITE_MAX_MS or world.variant.writes_to_the_end:
                self._write_plain(node, epoch)
        world.after_ms(WRITE_EVERY_MS, self._write)

    def _write_plain(self, node: MemberNode, epoch: int) -> None:
        chance, world = self.world.chance, self.world
        if chance.random() < world.swarm.stalls:
            world.after_ms(chance.random() * 2_000, partial(self.plain_lands, epoch, True))
            return
        late_ms = chance.choice((0.5, 5.0, WRITE_MAX_MS * 0.95))
        lands_at = max(self.under_way[node.name], world.at + int(late_ms * MS))
        self.under_way[node.name] = lands_at
        world.call_at(lands_at, partial(self.plain_lands, epoch, False))

    def guarded(self, epoch: int) -> None:
        if epoch < self.guard:
            self.refused += 1
            if self.world.variant.plc_ignores_epoch:
                self.world.fail(f"the PLC applied an order of epoch {epoch} after one of {self.guard}")
            return
        self.guard = epoch

    def stamp_lands(self, epoch: int) -> None:
        self.stamps_lost += epoch < self.stamp
        self.stamp = epoch

    def plain_lands(self, epoch: int, has_stalled: bool) -> None:
        if epoch >= self.plain:
            self.plain = epoch
        elif has_stalled:
            self.stale_plain += 1
        else:
            self.world.fail(f"plain registers took a write of epoch {epoch} after one of {self.plain}")

    def _poll(self) -> None:
        """The active looks whether its stamp still stands; if not, it raises a case and writes again."""
        if not self.world.variant.stamp_not_polled:
            for node, epoch, _ in self._holders():
                if (node.name, epoch) in self.stamped and self.stamp < epoch:
                    self.world.after_ms(0.5, partial(self.stamp_lands, epoch))
        self.world.after_ms(POLL_MS, self._poll)

    def check_end(self) -> None:
        """Nothing stale stands in the stamped output once everything was well for a while."""
        holder = next(node for node in self.world.members if node.is_leading)
        leading = holder.machine.leading
        if leading is not None and self.stamp != leading.epoch:
            self.world.fail(f"the stamped output stands at epoch {self.stamp}, {leading.epoch} leads")
