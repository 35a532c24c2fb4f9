"""Outputs of the simulated pair: one PLC for each guard level, written by whoever holds a permit.

    plc    guard logic refuses lower epochs; a gate does the same at another place
    stamp  the value and [epoch, count] in one write; the active polls the stamp and writes again what it lost
    lease  plain registers: a write starts only while `write_max` of the lease is left, and lands within it or never

Adapters that were told to stand by say so, and until when what has left may land; adapters whose host hangs say
nothing until it goes on, and then send what they had checked before.

Checked: a guarded PLC never applies a lower epoch after a higher one; a lost stamp is written again; plain registers
see a stale write only from a host that paused between its check and its send (counted, and told as weaker), and where
the lead was given away in order they and the stamped output see none at all.

Spec: design/pair.md, Guard levels of outputs; rules 4, 10, 11, 12; ADR-0121.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from albireo.machine.pair.events import OutputsEnded
from albireo.model.instant import MS, Instant
from albireo.sim.machines.stage import MemberNode, PairStage

WRITE_EVERY_MS: Final = 20
WRITE_MAX_MS: Final = 100
"""TCP_USER_TIMEOUT of an output connection, and longest time that a PLC may keep a write in its queue."""
STALL_MS: Final = 900.0
POLL_MS: Final = 60


class Adapters:
    """Adapters of one member."""

    def __init__(self) -> None:
        self.is_acting = True
        self.stand_down = 0
        self.lands_at = 0
        """Instant at which the last write lands: one connection, so in order."""
        self.not_after = Instant(0)
        """End of the newest permit, by the clock of the member."""
        self.hangs_until = 0


class AppliedOutputs:
    """PLCs of one pair: what they applied, and what they should not have."""

    def __init__(self, stage: PairStage) -> None:
        self.stage = stage
        self.agenda = stage.agenda
        self.chance = stage.chance
        self.guard = 0
        self.refused = 0
        self.stamp = 0
        self.stamps_lost = 0
        """Number of stale writes of the stamped output; each is seen within a poll."""
        self.plain = 0
        self.stale_plain = 0
        """Number of stale writes of plain registers, all of hosts that paused between check and send."""
        self.adapters = {"A": Adapters(), "B": Adapters()}
        self.is_mute = False
        """True: devices carry out what they get, and answer nothing."""
        self.yielded: set[int] = set()
        """Epochs whose holder gave the lead away in order."""
        self.stamped: set[tuple[str, int]] = set()

    def begin(self) -> None:
        self._write()
        self._poll()

    def _holders(self) -> list[tuple[MemberNode, int, int]]:
        """Return the members with a permit now whose adapters act, with epoch and what is left of the permit, ms."""
        found = []
        for node in self.stage.members:
            if node.is_holder and self.adapters[node.name].is_acting and self.agenda.at >= node.paused_until:
                now = node.now
                permit = node.machine.permit(now)
                if permit is not None:
                    self.adapters[node.name].not_after = permit.not_after
                    found.append((node, permit.epoch, (permit.not_after - now) // MS))
        return found

    def serve(self, node: MemberNode, epoch: int) -> None:
        """Let a member's adapters act, also after a handover that was given up."""
        adapters = self.adapters[node.name]
        adapters.is_acting, adapters.stand_down = True, adapters.stand_down + 1
        self.yielded.discard(epoch)

    def stand_by(self, node: MemberNode) -> None:
        """Tell a member's adapters to stand by; they hear it a moment later."""
        adapters = self.adapters[node.name]
        adapters.stand_down += 1
        self.agenda.after_ms(0.1 + self.chance.random() * 2, partial(self._told, node, node.life, adapters.stand_down))

    def _told(self, node: MemberNode, life: int, stand_down: int) -> None:
        agenda, adapters = self.agenda, self.adapters[node.name]
        if node.life != life or adapters.stand_down != stand_down:
            return
        if agenda.at < adapters.hangs_until:
            agenda.call_at(adapters.hangs_until + 1, partial(self._told, node, life, stand_down))
            return
        adapters.is_acting = False
        if adapters.lands_at <= agenda.at:
            self._ended(node, life, stand_down)
            return
        node.deliver(OutputsEnded(adapters.not_after))
        if not self.is_mute and self.chance.random() >= self.stage.swarm.mute:
            agenda.call_at(adapters.lands_at + MS // 2, partial(self._ended, node, life, stand_down))

    def _ended(self, node: MemberNode, life: int, stand_down: int) -> None:
        """Tell a member that no write of its adapters is under way any more."""
        if node.life == life and self.adapters[node.name].stand_down == stand_down:
            node.deliver(OutputsEnded(Instant(0)))

    def _write(self) -> None:
        for node, epoch, left_ms in self._holders():
            late_ms = self.chance.choice((0.5, 0.5, 5.0, STALL_MS))
            self.agenda.after_ms(late_ms, partial(self.guarded, epoch))
            if (node.name, epoch) not in self.stamped:
                self.stamped.add((node.name, epoch))
                leaves = self.hangs if late_ms == STALL_MS else self.leaves
                leaves(node, late_ms, partial(self.stamp_lands, epoch))
            if left_ms >= WRITE_MAX_MS or self.stage.variant.writes_to_the_end:
                self._write_plain(node, epoch)
        self.agenda.after_ms(WRITE_EVERY_MS, self._write)

    def _write_plain(self, node: MemberNode, epoch: int) -> None:
        chance = self.chance
        if chance.random() < self.stage.swarm.stalls:
            self.hangs(node, chance.random() * 2_000, partial(self.plain_lands, epoch, True))
            return
        late_ms = chance.choice((0.5, 5.0, WRITE_MAX_MS * 0.95))
        self.leaves(node, late_ms, partial(self.plain_lands, epoch, False))

    def leaves(self, node: MemberNode, late_ms: float, lands: Callable[[], None]) -> None:
        """Send a write on its way, behind those before it; the device answers when it lands."""
        adapters = self.adapters[node.name]
        adapters.lands_at = max(adapters.lands_at, self.agenda.at + int(late_ms * MS))
        self.agenda.call_at(adapters.lands_at, lands)

    def hangs(self, node: MemberNode, for_ms: float, lands: Callable[[], None]) -> None:
        """Pause the host of an adapter between the check of the permit and the send."""
        adapters = self.adapters[node.name]
        adapters.hangs_until = max(adapters.hangs_until, self.agenda.at + int(for_ms * MS))
        self.agenda.after_ms(for_ms, lands)

    def guarded(self, epoch: int) -> None:
        if epoch < self.guard:
            self.refused += 1
            if self.stage.variant.plc_ignores_epoch:
                self.stage.fail(f"the PLC applied an order of epoch {epoch} after one of {self.guard}")
            return
        self.guard = epoch

    def stamp_lands(self, epoch: int) -> None:
        if epoch < self.stamp:
            self.stamps_lost += 1
            self._check_given_away(epoch, self.stamp)
        self.stamp = epoch

    def plain_lands(self, epoch: int, has_stalled: bool) -> None:
        if epoch >= self.plain:
            self.plain = epoch
            return
        self._check_given_away(epoch, self.plain)
        if has_stalled:
            self.stale_plain += 1
        else:
            self.stage.fail(f"plain registers took a write of epoch {epoch} after one of {self.plain}")

    def _check_given_away(self, epoch: int, after: int) -> None:
        if epoch in self.yielded:
            self.stage.fail(f"a write of epoch {epoch}, which was given away in order, landed after one of {after}")

    def _poll(self) -> None:
        """Let a member that acts look whether its stamp still stands; if not, it writes again."""
        if not self.stage.variant.stamp_not_polled:
            for node, epoch, _ in self._holders():
                if (node.name, epoch) in self.stamped and self.stamp < epoch:
                    self.leaves(node, 0.5, partial(self.stamp_lands, epoch))
        self.agenda.after_ms(POLL_MS, self._poll)

    def check_end(self) -> None:
        """Check that nothing stale stands in the stamped output once everything was well for a while."""
        holder = next(node for node in self.stage.members if node.is_holder)
        epoch = holder.machine.holder.epoch if holder.machine.holder is not None else self.stamp
        if self.stamp != epoch:
            self.stage.fail(f"the stamped output stands at epoch {self.stamp}, the holder has {epoch}")
