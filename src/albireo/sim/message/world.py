"""A tree of three nodes in one process, from a seed: the ends send messages to each other, the middle passes them on.

The machines and folds are the real ones; the log, the clocks, the network and the devices are simulated. Safety is
checked at every step (ledger.py), liveness once the faults stop: within a bounded time every message has an outcome
that nobody waits to correct, and wherever both logs live they agree on (name, guid, outcome).

Not here: frames, links and the adapters (they have worlds of their own).
Spec: docs/messages.md; ADR-0184.
"""

from collections import Counter
from typing import Final

from albireo.codec.message_records import MessageRequested
from albireo.codec.tree.letters import TreeMessage
from albireo.machine.fold.letters.letters import MessageFold
from albireo.machine.fold.letters.outbox import MessageReceipt
from albireo.machine.message.events import SendAsked
from albireo.model.instant import MS, SECOND
from albireo.model.tree.message import MessageOutcome
from albireo.sim.engine.world import World
from albireo.sim.message.faults import MessageFaults
from albireo.sim.message.node import MessageNode
from albireo.sim.message.programs import INBOX, UNREAD, ReceivingProgram
from albireo.sim.message.stage import PLAIN_MESSAGES, MessagesStage, MessageVariant
from albireo.sim.message.swarm import MessageSwarm, swarm_of

TOP: Final = "root"
MIDDLE: Final = "root/north"
LOWEST: Final = "root/north/pump"
RECOVERY_NS: Final = 30 * SECOND
"""Bound on ending all messages once the faults stopped."""


class MessageWorld(World[MessagesStage]):
    """World of one seed; it begins when it is made."""

    def __init__(
        self,
        seed: int,
        swarm: MessageSwarm | None = None,
        variant: MessageVariant = PLAIN_MESSAGES,
        *,
        is_verbose: bool = False,
    ) -> None:
        super().__init__(MessagesStage(seed, swarm or swarm_of(seed), variant, is_verbose=is_verbose))
        stage = self.stage
        self.asked = 0
        self.nodes = {one: MessageNode(stage, one) for one in (TOP, MIDDLE, LOWEST)}
        stage.hear = self._hear
        stage.present_of = lambda node: lambda: self.nodes[node].present
        stage.ledger.lost_log_ns = lambda node: self.nodes[node].lost_log_ns
        self.faults = MessageFaults(stage, stage.network, list(self.nodes.values()), ())
        for node in self.nodes.values():
            node.start(continues=False)
        readers = range(stage.swarm.receivers if stage.swarm.notes else 0)
        self.programs = [ReceivingProgram(stage, node, number) for node in (TOP, LOWEST) for number in readers]
        self._ask_on(TOP, LOWEST)
        if stage.swarm.is_two_way:
            self._ask_on(LOWEST, TOP)

    def _hear(self, to: str, letter: TreeMessage) -> None:
        self.nodes[to].hear(lambda run: run.do(run.machine.heard(letter, run.times())))
        self._check_bounds(to)

    def _check_bounds(self, to: str) -> None:
        run, limits = self.nodes[to].present, self.stage.swarm.limits
        if run is None or not self.stage.variant.is_bounded:
            return
        taken = sum(not row.is_refused for row in run.fold.inbox.rows.values())
        lives = {row.name.life for row in run.fold.inbox.rows.values() if not row.is_refused}
        if taken > limits.window * max(1, len(lives)) * (3 if self.stage.swarm.notes else 1):
            self.stage.fail(f"{to} remembers {taken} messages of {len(lives)} lives")
        under_way = Counter(one.name.inbox for one in run.fold.inbox.unfinished())
        if any(count > limits.room for count in under_way.values()):
            self.stage.fail(f"{to} has more under way than it has room for: {under_way}")

    def _ask_on(self, origin: str, owner: str) -> None:
        stage = self.stage

        def ask() -> None:
            if stage.has_faults:
                self._ask(origin, owner)
                stage.agenda.after_ms(stage.chance.expovariate(1.0 / stage.swarm.ask_every_ms), ask)

        stage.agenda.after_ms(20, ask)

    def _ask(self, origin: str, owner: str, expires_ms: int = 0, inbox: str | None = None) -> None:
        stage, run = self.stage, self.nodes[origin].present
        if inbox is None:
            is_note = stage.chance.random() < stage.swarm.notes
            inbox = stage.chance.choice([INBOX, INBOX, INBOX, UNREAD]) if is_note else ""
        if run is None:
            return
        self.asked += 1
        command_id = f"{origin} {self.asked}"
        size = stage.chance.choice(stage.swarm.bodies)
        asked = SendAsked(
            command_id=command_id,
            owner=owner,
            kind="note" if inbox else "write",
            body=command_id.encode().ljust(size, b"."),
            expires_ms=expires_ms or stage.chance.choice(stage.swarm.expires_ms),
            inbox=inbox,
        )
        effects = run.machine.ask(asked, run.times())
        if isinstance(effects, list):
            run.do(effects)

    def settle(self) -> None:
        self.faults.heal()
        self.within(RECOVERY_NS, self._is_settled, self._unsettled)
        self.agenda.play_until(self.agenda.at + 2 * SECOND)
        for inbox in ("", INBOX) if self.programs else ("",):
            self._check_way(TOP, LOWEST, inbox)
            self._check_way(LOWEST, TOP, inbox)
        self._check_agreement()
        for node in self.nodes.values():
            node.end_run()

    def _check_way(self, origin: str, owner: str, inbox: str) -> None:
        """Check that a message goes through and is carried out, now that nothing is in its way."""
        self._ask(origin, owner, int(RECOVERY_NS / MS), inbox)
        wanted = MessageOutcome.EXECUTED if inbox else MessageOutcome.VERIFIED
        found, command_id = self.nodes[origin].present, f"{origin} {self.asked}"
        assert found is not None

        def is_done() -> bool:
            receipt = found.machine.find(command_id)
            return isinstance(receipt, MessageReceipt) and receipt.end.outcome is wanted

        self.within(RECOVERY_NS, is_done, lambda: f"no way from {origin} to {owner}: {found.machine.find(command_id)}")

    def _folds(self) -> dict[str, MessageFold]:
        return {name: node.present.fold for name, node in self.nodes.items() if node.present is not None}

    def _is_settled(self) -> bool:
        return not self._waiting()

    def _waiting(self) -> list[str]:
        waiting = []
        for fold in self._folds().values():
            waiting += [f"{name} open" for name in fold.outbox.open]
            waiting += [f"{one.name} unknown" for one in fold.outbox.receipts.unsettled]
            waiting += [f"{one.name} under way" for one in fold.inbox.unfinished()]
        return waiting

    def _unsettled(self) -> str:
        return f"30 s after the last fault: {', '.join(self._waiting())}"

    def _check_agreement(self) -> None:
        """Check that both logs hold the same proof of each message, and that no request is forgotten."""
        folds = self._folds()
        for one, fold in folds.items():
            for receipt in fold.outbox.receipts:
                at_owner = folds[receipt.name.owner].inbox.receipts.get(receipt.name)
                is_older = self.nodes[receipt.name.owner].was_restored
                if at_owner is None or (is_older and at_owner.end.outcome is MessageOutcome.UNKNOWN):
                    continue
                if (at_owner.guid, at_owner.end.outcome) != (receipt.guid, receipt.end.outcome):
                    self.stage.fail(
                        f"{receipt.name}: {receipt.end.outcome} at its origin, {at_owner.end.outcome} at its owner"
                    )
            for fact in self.nodes[one].store.facts:
                asked = fact.record
                if isinstance(asked, MessageRequested) and fold.outbox.receipts.get(asked.name) is None:
                    self.stage.fail(f"{asked.name} has no outcome")
