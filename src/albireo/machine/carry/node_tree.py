"""The tree as one node takes part in it: what it follows below, what it shows of that, and messages from node to node.

    children --> Below: copies of their logs, mirrors of their states
    parent   --> Beyond: mirrors of the states of nodes that are not below, if they are wanted
    neighbours <-- letters --> MessagePost: orders to items of other nodes, and theirs to items of this one

Spec: design/tree.md.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol

from albireo.codec.errors import DecodeError
from albireo.codec.message import AnyMessage
from albireo.codec.message_records import MessageFact
from albireo.codec.principal import NEIGHBOUR_WORDS
from albireo.codec.record import CommandAccepted, CommandFinished, Record
from albireo.codec.slices import read_slices, sliced, unsliced
from albireo.codec.tree.hello import ParentHello
from albireo.codec.tree.letters import FromOrigin, FromOwner
from albireo.machine.carry.retelling import Retelling
from albireo.machine.desk.role import Role
from albireo.machine.kernel.events import LettersDrained, MemberSaid, OneLetter
from albireo.machine.kernel.part import Footing, RootPart
from albireo.machine.kernel.turn import Moment, Question, Turn
from albireo.machine.message.courses import Courses
from albireo.machine.message.events import MessageLimits, SendAsked
from albireo.machine.message.messages import NodeMessages
from albireo.machine.message.post import MessagePost, ReceiptTold
from albireo.machine.orders.declared import OrdersRoot, kinds
from albireo.machine.pair.handover import FORCE_JUMP
from albireo.machine.tree.below import Below, mirrors_of
from albireo.machine.tree.beyond import PARENT_LINES, Beyond, mirrors_beyond
from albireo.machine.tree.followed_states import UNHEARD_NS, Raw
from albireo.machine.tree.mirror import KeptState, NodeMirror
from albireo.machine.tree.neighbours import NeighbourWatch
from albireo.model.access import AccessRole
from albireo.model.instant import SECOND, Instant, LogTime, soonest
from albireo.model.item import KnownItem
from albireo.model.position import Position
from albireo.model.refusal import Refusal, id_reused
from albireo.model.tree.course import CommandCourse
from albireo.model.tree.message import Life, MessageName
from albireo.model.tree.node_row import NodeRow

PARENT: Final = b"parent"
"""Stands for the node above as the sender of a letter, and as where one goes, whichever member of it acts: the shell
knows its links."""
RUN_BYTES: Final = 16
MIRRORS: Final = "mirrors"
"""Section of a snapshot; no part of the folds."""
SET_BACK_NS: Final = 3_600 * SECOND
"""Time for which a store is told that came back behind what is known of it."""
GRACE_NS: Final = 3 * SECOND
"""A client waits five seconds behind the time of an order; `unknown` has to be said before."""


class TreeRoot(OrdersRoot, Protocol):
    """The root machine, as far as the tree needs it."""

    role: Role

    def log_time_ns(self, now: Instant) -> int:
        """Log time at this instant: that of the end of the log, and what has passed since."""


class NodeTree(RootPart):
    """The machine; a tenure begins it afresh, but for the mirrors."""

    def __init__(self, root: TreeRoot, moment: Moment) -> None:
        self._root = root
        self._parent_heard = moment
        """Moment at which a member of the node above was heard last, or this run began."""
        self._chance = random.Random(root.config.seed)
        self.run = self._chance.randbytes(RUN_BYTES)
        """Random number of this run of the process."""
        self.mirrors = mirrors_of(root.config.children, root.folds.origins, self.run)
        """States of the nodes below, by id."""
        self._mirrors_beyond = mirrors_beyond(root.config.beyond, self.run)
        self.neighbours = NeighbourWatch(root.config.topology_hash)
        self.kinds = kinds(root)
        self.carriers = {one.name: one for one in self.kinds if one.is_executed_here}
        """Kinds of orders that this node carries out for others, by the kind of their messages."""

    @property
    def all_mirrors(self) -> Mapping[str, NodeMirror]:
        """States of the nodes below, and of those beyond that are followed at the parent."""
        return self.mirrors | self._mirrors_beyond

    def kept_slices(self, wall_ns: int) -> Iterator[tuple[str, bytes]]:
        """Slices of a section of a snapshot: what the mirrors show."""
        return ((MIRRORS, sliced(one)) for mirror in self.all_mirrors.values() for one in mirror.kept(wall_ns))

    def take_kept(self, section: bytes) -> str:
        """Take what a snapshot from before this run has of the mirrors; returns why some of it can't be read, empty if
        all can. They are caches: the rest is done without."""
        try:
            for one in read_slices(section):
                kept = unsliced(one, KeptState)
                if kept.node in self.all_mirrors:
                    self.all_mirrors[kept.node].take_kept(kept)
        except DecodeError as error:
            return str(error)
        return ""

    def begin_afresh(self) -> None:
        """Take anew from the folds what is known of other nodes: nobody is connected yet."""
        root, config = self._root, self._root.config
        root.folds.origins.shown = self._shown
        self.below = Below(config, root.folds.origins, self.mirrors, self.neighbours)
        self.beyond = Beyond(config.node, config.parent, self._mirrors_beyond)
        limits = MessageLimits(
            grace_ns=GRACE_NS, body_bytes_max=min(MessageLimits().body_bytes_max, config.segment_bytes // 2)
        )
        messages = NodeMessages(config.node, root.folds.messages, self._chance, limits)
        for kind in self.kinds:
            kind.begin_afresh()
        self.post = MessagePost(messages, self.carriers)
        self._courses = Courses(messages, root.folds.commands, root.folds.dim)
        self._retelling = Retelling(root.folds, root.registry)
        self._has_begun = False
        self._parent_heard_at = Instant(-UNHEARD_NS)
        self._seen: Moment | None = None
        """Last moment at which anything happened."""

    def take_up(self, moment: Moment, turn: Turn) -> None:
        """Go on with the neighbours of a changed topology; who is as before is followed as before."""
        config, origins = self._root.config, self._root.folds.origins
        self.neighbours.take_up(config.topology_hash, config.neighbours)
        run = self._chance.randbytes(RUN_BYTES)
        self.mirrors = mirrors_of(config.children, origins, run, self.mirrors)
        for line in self.below.take_up(config.children, self.mirrors, moment, turn):
            self.post.lost(line, moment, self._log_time(moment), turn)
        if config.beyond != tuple(self._mirrors_beyond):
            self._mirrors_beyond = mirrors_beyond(config.beyond, run, self._mirrors_beyond)
            self.beyond = Beyond(config.node, config.parent, self._mirrors_beyond)

    def _shown(self, node: str, item_id: int) -> KnownItem | None:
        mirror = self.mirrors.get(node)
        return None if mirror is None else mirror.dim.by_id(item_id)

    def _log_time(self, moment: Moment) -> LogTime:
        self._seen = moment
        return LogTime(self._root.log_time_ns(moment.now))

    def deadline(self, folded_to: Position) -> Instant | None:
        """When `time_passed` is due; nothing of messages is while this node does not serve."""
        seen = self._seen if self._root.role.is_serving and self.post.is_open else None
        messages = None if seen is None else self.post.deadline(seen, self._log_time(seen))
        return soonest(self.below.deadline(), self.beyond.deadline(), messages)

    def serve(self, now: Footing, turn: Turn) -> None:
        """Do what follows from serving, each thing once.

        A member of a pair that took over by the votes has all that was committed before, so its messages go on with
        the life of its predecessor. One that leads by force may lack some of it. A node alone can prove that its store
        is no old copy only if its boot has held it since the tenure before (node/core/alone.py).
        """
        moment, is_open = now.moment, now.is_open
        self.below.serve(moment, turn, is_open=is_open)
        self.post.messages.passes_on = True
        if is_open:
            self._retelling.go_on(turn)
        if not self._has_begun:
            *before, entry = turn.log.history.entries
            is_voted = self._root.config.is_paired and before and entry.epoch - before[-1].epoch < FORCE_JUMP
            continues = before[-1].epoch if before and (is_voted or self._root.role.goes_on) else 0
            life = Life(entry.epoch, entry.branch_id)
            self._has_begun = True
            self.post.begin(life, moment, self._log_time(moment), turn, continues=continues)

    def let_go(self, turn: Turn) -> None:
        """The parent lacks records that are gone; it is told what they declared."""
        self._retelling.begin(turn)

    def stand_by(self, turn: Turn) -> None:
        """Order and record nothing until this node serves again."""
        self.below.stand_by()
        self.post.suspend(turn)
        self._has_begun = False

    def hears(self, letter: OneLetter, among: LettersDrained, now: Footing, turn: Turn) -> bool:
        """Take what a neighbour says. It is heard from the key of a neighbour only, whatever roles there are."""
        if type(letter[1]) not in NEIGHBOUR_WORDS:
            return False
        self._hears(*letter, now.moment, turn)
        return True

    def _hears(self, sender: bytes, message: AnyMessage, raw: Raw, principal: str, moment: Moment, turn: Turn) -> None:
        is_above = sender in PARENT_LINES
        if isinstance(message, FromOrigin | FromOwner):
            self._link_up()
            self.post.letter(PARENT if is_above else sender, message, moment, self._log_time(moment), turn)
        elif isinstance(message, ParentHello):
            if is_above and message.node == self._root.config.parent:
                self.neighbours.heard(message, moment)
                self.beyond.parent_there(PARENT_LINES.index(sender), moment, turn)
                if moment.now - self._parent_heard_at >= UNHEARD_NS:
                    self.post.heard_again(message.node)
                self._parent_heard_at, self._parent_heard = moment.now, moment
        elif is_above:
            self.beyond.hears(sender, message, raw, moment, turn)
        else:
            self.below.hears(sender, message, raw, principal, moment, turn)

    def _link_up(self) -> None:
        """Have letters go to the member of each neighbour that acts now."""
        if self._root.config.parent:
            self.post.linked(self._root.config.parent, PARENT)
        for child in self._root.config.children:
            line = self.below.line_to(child.node)
            if line is not None:
                self.post.linked(child.node, line, self.below.log_line_of(child.node))

    def knows(self, command_id: str) -> bool:
        """True: the id names a message to another node."""
        return self.post.messages.origin.asked_with(command_id) is not None

    def role_to_cancel(self, command_id: str) -> AccessRole:
        """Role that whoever takes back a message of this node needs at its owner: as that kind of order needs."""
        sent = self.post.messages.origin.asked_with(command_id)
        kind = None if sent is None else self.carriers.get(sent.kind)
        return AccessRole.OPERATE if kind is None else kind.role

    def draw_id(self, kind: str) -> str:
        """Command id for an order that came without one."""
        return f"{kind} {self._chance.getrandbits(64):016x}"

    def send(self, question: Question, sent: SendAsked, turn: Turn, told: ReceiptTold) -> Refusal | None:
        """Send a message to another node, and answer the question once it has an end."""
        if self._root.orders.knows(sent.command_id):
            return id_reused(sent.command_id, "owner")
        self._link_up()
        return self.post.ask(question, sent, self._log_time(question.moment), turn, told)

    def cancel(self, question: Question, command_id: str, turn: Turn, told: ReceiptTold) -> Refusal | None:
        """Take a message back, and answer once it has an end."""
        self._link_up()
        return self.post.take_back(question, command_id, self._log_time(question.moment), turn, told)

    def send_off(self, question: Question, sent: SendAsked, turn: Turn) -> Refusal | None:
        """Send a message to another node, and answer the question once it is on record here."""
        if self._root.orders.knows(sent.command_id):
            return id_reused(sent.command_id, "owner")
        self._link_up()
        return self.post.post(question, sent, self._log_time(question.moment), turn)

    def receive(self, question: Question, inbox: str, wait_ns: int, turn: Turn) -> Refusal | None:
        """Give a receiver the next message of an inbox, as it comes."""
        self._link_up()
        return self.post.receive(question, inbox, wait_ns, self._log_time(question.moment), turn)

    def take(
        self, question: Question, name: MessageName, lease: int, reply: bytes | None, turn: Turn
    ) -> Refusal | None:
        """Take a receiver's word that a message is its own now, and its reply; returns a refusal."""
        return self.post.taken(question, name, lease, self._log_time(question.moment), turn, reply)

    def give_back(self, question: Question, name: MessageName, lease: int, turn: Turn) -> Refusal | None:
        """Take a receiver's word that it did nothing with a message; returns a refusal."""
        self._link_up()
        return self.post.given_back(question, name, lease, self._log_time(question.moment), turn)

    def withdraw(self, question: Question, request_id: int, turn: Turn) -> None:
        """Take the word that nobody waits for the answer to an earlier question."""
        self._link_up()
        self.post.withdraw(question, request_id, self._log_time(question.moment), turn)

    def course(self, command_id: str, moment: Moment) -> CommandCourse | None:
        """Life cycle of a command; None: none of this id is remembered."""
        return self._courses.find(command_id, self._log_time(moment), moment.wall)

    def courses(self, most: int, moment: Moment) -> list[CommandCourse]:
        """The commands that are remembered, the newest first."""
        return self._courses.latest(most, self._log_time(moment), moment.wall)

    def folded(self, records: Sequence[Record], moment: Moment, turn: Turn) -> None:
        """Go on with what waited for an order's beginning or receipt, or for a record of a message."""
        for one in records:
            match one:
                case MessageFact():
                    self.post.committed([one], moment, self._log_time(moment), turn)
                case CommandAccepted():
                    for kind in self.kinds:
                        if (name := kind.begun(one)) is not None:
                            self.post.begun(name, moment, self._log_time(moment), turn)
                case CommandFinished(receipt=receipt):
                    for kind in self.kinds:
                        if (ended := kind.finished(receipt)) is not None:
                            self.post.executed(*ended, moment, self._log_time(moment), turn)
                case _:
                    pass

    def followed(self, now: Footing, turn: Turn) -> None:
        self.below.committed(now.folded_to.sequence, now.moment, turn)

    def time_passed(self, now: Footing, turn: Turn) -> None:
        moment = now.moment
        self.below.time_passed(moment, turn)
        self.beyond.time_passed(moment, turn)
        if now.is_serving:
            self._link_up()
            self.post.time_passed(moment, self._log_time(moment), turn)

    def silent(self) -> list[str]:
        """Nodes below that are not heard, in the order of the topology."""
        return [node for node, mirror in self.mirrors.items() if mirror.stale_since_ns is not None]

    def unreached_since_ns(self, moment: Moment) -> int | None:
        """Wall time since which no member of the node above is heard, at the earliest that of the start; None: one is,
        or there is no node above."""
        is_there = not self._root.config.parent or moment.now - self._parent_heard.now < UNHEARD_NS
        return None if is_there else self._parent_heard.wall

    def set_back(self, moment: Moment) -> tuple[str, ...]:
        """Nodes below that came back, in the last hour, with less than is known of them."""
        return self._root.folds.origins.set_back(moment.wall - SET_BACK_NS)

    def figures(self, other: MemberSaid | None, moment: Moment) -> tuple[float, ...]:
        """Values of CORE's items about other nodes (diagnostics/own.py). `other`: last word of the other member."""
        of_tree = len(self.silent()), self.post.doubts(moment.now), len(self.set_back(moment))
        return *self.neighbours.figures(other), *map(float, of_tree), float(self.unreached_since_ns(moment) is not None)

    def seen(self) -> list[NodeRow]:
        """Every node below in the order of the topology, then those beyond whose state is followed."""
        beyond = self.beyond
        return self.below.seen() + [
            NodeRow(
                node=node,
                by=beyond.parent,
                stale_since_ns=mirror.stale_since_ns,
                items=len(mirror.dim),
                position="",
                complete_to_ns=0,
                missing=0,
                behind=-1,
                feature_level=0,
                topology_hash="",
                refused=beyond.refused + mirror.refused,
                trouble=beyond.trouble,
            )
            for node, mirror in self._mirrors_beyond.items()
        ]

    def lost(self, sender: bytes, moment: Moment, turn: Turn) -> None:
        """A send to this peer failed."""
        self.below.lost(sender, moment, turn)
        self.post.lost(sender, moment, self._log_time(moment), turn)
