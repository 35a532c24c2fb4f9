"""Voters of the simulated pair: witnesses with a machine and a store of their own, and the registers of PLCs."""

from functools import partial

from albireo.codec.pair_message import Accept, Question, Record
from albireo.machine.pair.events import FromVoter
from albireo.machine.vote.voter import HolderGone, Persist, SendVote, VoteAsked, VoterStore
from albireo.sim.machines.ledger import PairLedger
from albireo.sim.machines.plc import Plc
from albireo.sim.machines.stage import MemberNode, PairStage, VoterNode


class Voters:
    """All voters of one pair."""

    def __init__(self, stage: PairStage, ledger: PairLedger) -> None:
        self.stage = stage
        self.ledger = ledger
        first = Record(
            cluster="c", voters=stage.config.voters, generation=1, epoch=2, version=1, holder=0, run=0,
            members=(0,), lease_ns=stage.config.lease_ns,
        )  # fmt: skip
        self.first_store = VoterStore(cluster="c", generation=1, record=first, promised=2)
        names = stage.config.voters
        self.witnesses = {name: VoterNode(stage, name, self.first_store) for name in names if name.startswith("v")}
        self.plcs = {name: Plc(stage, ledger, name) for name in names if name.startswith("p")}

    def start(self, node: VoterNode) -> None:
        node.begin_life()
        node.machine = self.stage.variant.voter(node.name, "c", node.store, node.now, self.stage.config.drift)

    def start_sides(self, node: MemberNode) -> None:
        """Start the machines of a member's registers, as a run of the member begins."""
        for plc in self.plcs.values():
            plc.start_side(node)

    def ask(self, node: MemberNode, name: str, question: Question) -> None:
        """Ask a witness over the network, the registers of a PLC through the machine in the asker's process."""
        if name in self.plcs:
            self.plcs[name].step(node, VoteAsked(question))
        else:
            voter = self.witnesses[name]
            hears = partial(self._hears, voter, VoteAsked(question), node)
            self.stage.network.send(node.name, name, 0, lambda: voter.awake(hears))

    def tell_gone(self, teller: MemberNode, run: int) -> None:
        """Let all voters see for themselves that a run's connections were closed and a new one is refused."""
        for voter in self.witnesses.values():
            voter.awake(partial(self._hears, voter, HolderGone(run), None))
        for plc in self.plcs.values():
            teller.awake(partial(plc.step, teller, HolderGone(run)))

    def _hears(self, node: VoterNode, event: VoteAsked | HolderGone, asker: MemberNode | None) -> None:
        stage = self.stage
        stage.steps += 1
        effects = node.machine.step(event, node.now)
        if stage.variant.answers_before_persist:
            effects.sort(key=lambda effect: isinstance(effect, Persist))
        for effect in effects:
            if stage.crashes(stage.swarm.crash_voter):
                node.is_up = False
                stage.note(node.name, "killed")
                stage.agenda.after_ms(stage.chance.random() * 300, partial(self.start, node))
                return
            match effect:
                case Persist(store):
                    node.store = store
                    if isinstance(event, VoteAsked) and isinstance(event.question, Accept):
                        self.ledger.accepts(node.name, event.question.record)
                case SendVote(message) if asker is not None:
                    stage.network.send(node.name, asker.name, 0, partial(asker.deliver, FromVoter(message)))
