"""Membership of a pair: carries out what the member machine says, around one log and its folds.

    letters of peers and voters, synced, appended, time --> Member.step --> effects, in order:
    disk (promise, grant, cut, append)   peers and voters (links)   folds (commit, serve, stop serving)

Invariants
    order:   effects are carried out one after another; a step that an effect causes comes behind all of them.
    view:    each step sees the log as it is then, with all that earlier steps had done to it.
    effects first: a member that may not act any more has stopped serving before anything else of that step is done.

Spec: design/pair.md, rules 2, 7, 10, 13.
"""

import asyncio
import random
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from albireo.codec.message import Ask, Carry, HistoryTold
from albireo.codec.pair_message import (
    Carried,
    FollowAcked,
    FollowAnswered,
    Frames,
    FromHolder,
    Heartbeat,
    HeartbeatAnswered,
    PeerMessage,
    Question,
    Voted,
)
from albireo.codec.record import Audited
from albireo.machine.kernel import events as root_events
from albireo.machine.kernel.permit import Permit
from albireo.machine.pair.events import (
    ACTING,
    HOLDING,
    AppendFrames,
    AppendNoOp,
    AskVoter,
    CaseTold,
    CloseAdmission,
    Commit,
    CutTo,
    Effect,
    Event,
    FromPeer,
    FromVoter,
    GrantEpoch,
    LogChanged,
    MemberStarted,
    MemberStopAsked,
    Objection,
    PeerGone,
    PersistStore,
    RaiseLevel,
    Refused,
    RepairLog,
    Replicate,
    SendFolds,
    SendRange,
    Serve,
    SessionLost,
    StartOver,
    State,
    StopNow,
    StopServing,
    TakeFolds,
    TellPeer,
    Transitioned,
    Why,
)
from albireo.machine.pair.member import Member
from albireo.machine.pair.party import MemberFacts
from albireo.model.instant import SECOND, Instant, TimePassed, soonest
from albireo.model.position import BEGINNING, Position
from albireo.model.status import PairStatus
from albireo.node.member.admin_actions import ActionContext, AdminActions
from albireo.node.member.audit_trail import audits_at_end
from albireo.node.member.marks import Marks
from albireo.node.member.output_watch import OutputWatch
from albireo.node.member.pair_links import PairLinks
from albireo.node.member.relay import MemberRelay
from albireo.node.member.status import MemberStatus
from albireo.node.membership.access import KeyAccess
from albireo.node.membership.membership import LogAndFolds
from albireo.node.membership.pair_arguments import PairArguments
from albireo.node.transfer.replication import Replication, received
from albireo.node.transfer.restoring import Restoring
from albireo.node.vote.holder_watch import HolderWatch
from albireo.node.vote.plc_voters import Outside, PlcVoters
from albireo.runtime import ActorContext, Letter, Link
from albireo.runtime.link.keys import Keys

RUN_MAX: Final = 2**32 - 1
STOP_GRACE_NS: Final = SECOND


class PairMembership:
    """The membership of one run of CORE in its pair; see the module."""

    def __init__(self, core: LogAndFolds, actor: ActorContext, arguments: PairArguments):
        self._core, self._actor, self._arguments = core, actor, arguments
        self._member: Member
        self._actions: AdminActions
        self._plcs: PlcVoters
        self._relay: MemberRelay
        self._told: root_events.PairChanged | None = None
        self._durable_seen = BEGINNING
        """Durable position that the last step saw: a holder, to whom only positions matter, takes no other for it."""
        self._events: deque[Event] = deque()
        self._is_busy = False
        self._stopped = asyncio.Event()
        self._boot: Link | None = None
        """Link to boot, made when this member asks for its own stop."""
        self._marks = Marks(actor.data, core.files, core.log.do, actor.wall_ns())
        if self._marks.unreadable:
            actor.log.error(
                "marks_unreadable", reason=self._marks.unreadable, remedy="`albireo status` says what to do"
            )
        self._status = MemberStatus(arguments.seats, arguments.config.voters, self._marks)
        self._keys = Keys.load(Path(arguments.keys)) if arguments.keys else None
        self._links: PairLinks
        self._watch: HolderWatch
        self._is_fresh = True
        """True: not in the set since this run, or its log, began: no snapshot has what it caught up with."""

    def begin(self) -> None:
        arguments = self._arguments
        self._links = PairLinks(self._actor, arguments, self._keys, self._status.refuse)
        self.door = self._links.door
        self._watch = HolderWatch(self._actor, arguments.other_place, arguments.other, self._keys)
        log, facts = self._core.log, self._facts()
        outside = Outside(self._core.say, log.keep_registers, self._heard_voter)
        self._plcs = PlcVoters(
            arguments.config,
            facts.index,
            facts.run,
            log.header.plc_registers,
            outside,
            self._actor.now(),
            arguments.waits,
        )
        self._member = Member(arguments.config, facts, random.Random(self._core.entropy(8)), self._actor.now())
        self._access = KeyAccess(self._core, self._actor, self._keys)
        asking, records = (self._ask_machine, self._ask_voter), (self._journal, self._append_audit)
        context = ActionContext(log.view, *asking, self._actor.wall_ns, self._stop_node, *records, self._access.refused)
        self._actions = AdminActions(self._member, self._status, self._marks, context)
        own, peer, status = self._member.own, self._member.peer, self._status
        told = (self._refuse, lambda session: self._step(SessionLost(session)))
        self._replication = Replication(self._actor, log, own, self._links.others, *told)
        self._restoring = Restoring(self._actor, self._core, own, self._links.others, self._refuse)
        self._relay = MemberRelay(self._actor, self._core, own, peer, self._links.others, status, self._refuse)
        self._outputs = OutputWatch(self._member, log, self._core.root)
        self._watch.run_of = lambda: self._member.peer.run
        self._watch.on_gone = self._other_gone
        self._watch.on_due = self._core.wake
        self._step(MemberStarted())
        self._actions.begin(audits_at_end(log))

    def _facts(self) -> MemberFacts:
        core, header = self._core, self._core.log.header
        return MemberFacts(
            index=self._arguments.member,
            run=1 + int.from_bytes(core.entropy(4)) % RUN_MAX,
            store=header.store_id,
            tried_epoch=header.tried_epoch,
            accepted_epoch=header.accepted_epoch,
            is_complete=core.is_complete,
            feature_level=core.feature_level,
            log_level=core.root.folds.feature_level,
        )

    def _other_gone(self, run: int, now: Instant) -> None:
        """Take note that the process of the other member is gone, its host is not (rule 12)."""
        self._plcs.holder_gone(run, now)
        self._step(PeerGone(run))

    def hears(self, letter: Letter) -> bool:
        message = letter.message
        path = self._links.path_of.get(letter.link)
        if path is not None:
            self._watch.heard()
            self._from_peer(message, letter.raw, path)
        elif self._links.is_of_voter(letter):
            if (vote := self._links.vote_of(letter)) is not None:
                self._heard_voter(vote)
        elif isinstance(message, Ask):
            return self._actions.asked(letter, message, self._actor.now())
        elif letter.link is self._links.clients:
            return False
        elif letter.link is self._boot:
            return True  # Boot says that the stop was asked for; the stop itself comes as to every actor.
        elif isinstance(message, Carry | HistoryTold):
            self._relay.from_actor(letter)
        else:
            return self._plcs.hears(letter.sender, message, self._actor.now())
        return True

    def _heard_voter(self, voted: Voted) -> None:
        self._status.voted(voted, self._actor.now())
        self._actions.voted(voted)
        self._step(FromVoter(voted))

    def _from_peer(self, message: object, raw: list[bytes | memoryview], path: int) -> None:
        if isinstance(message, Carried):
            self._relay.from_peer(message, raw)
            return
        if not isinstance(message, PeerMessage):
            self._status.refuse(f"{type(message).__name__} from the other member")
            return
        self._status.heard(path, message, self._actor.now())
        if isinstance(message, FromHolder):
            if not raw and not getattr(message, "is_gone", False):
                self._status.refuse(f"{type(message).__name__} without content")
                return
            if isinstance(message, Frames) and self._core.log.admission():
                return  # No room now: the holder sends it again, or goes on without us.
            message = msgspec.structs.replace(message, payload=raw[0] if raw else b"")
        elif isinstance(message, FollowAnswered) and self._restoring.lacks_room(message, self._status.told):
            return  # This member asks to follow again until there is room.
        elif isinstance(message, FollowAcked):
            self._replication.acked(message.session, message.durable)
            self._restoring.given()
        elif isinstance(message, HeartbeatAnswered):
            self._links.others[path].answered += 1
        self._step(FromPeer(message, path))
        if isinstance(message, Heartbeat) and message is self._member.peer.last:
            self._actions.heard(message)
            self._status.beat(message, self._actor.wall_ns(), self._member, self._core.log.history)
        self._replication.pump()

    def appended(self) -> None:
        self._step(LogChanged())

    def synced(self, position: Position) -> None:
        if self._member.holder is None or position != self._durable_seen:
            self._step(LogChanged())

    def awaits_disk(self) -> bool:
        holder = self._member.holder
        return holder is None or holder.awaits_disk(self._core.log.durable)

    def ticked(self, now: Instant) -> None:
        self._access.look()
        for event in self._restoring.news(now, self._status.told):
            self._step(event)
        if now >= self._member.deadline():
            self._step(TimePassed())
        self._actions.ticked(now)
        self._plcs.ticked(now)
        self._watch.pass_time(now)
        self._replication.pump()
        for event in self._outputs.events(now):
            self._step(event)

    def deadline(self) -> Instant | None:
        return soonest(
            self._member.deadline(),
            self._actions.deadline(),
            self._plcs.deadline(),
            self._watch.deadline(),
            self._outputs.deadline(),
        )

    @property
    def shutdown_id(self) -> str:
        """Shutdown id of a stop of both members; empty: this member stops alone."""
        return self._actions.joint_stop.shutdown_id

    def _stop_node(self) -> None:
        if self._boot is None:
            self._boot = self._actor.connect("boot")
        self._boot.send(Ask(request_id=0, what="stop"))

    def _journal(self, what: str, user: str) -> None:
        self._actor.log.info("admin_action", what=what, user=user)

    def _append_audit(self, records: Sequence[Audited]) -> int:
        root = self._core.root
        if not root.role.is_serving:
            return 0
        self._core.tell(root_events.OrdersGiven(records))
        return self._core.log.end.sequence

    def figures(self) -> root_events.PairFigures | None:
        return self._status.figures(self._member, self._core.log.history, self._actor.now(), self._core.root.is_open)

    def wanted_from(self) -> int | None:
        holder = self._member.holder
        return None if holder is None else holder.wanted_from(self._actor.now())

    def has_all_folded(self) -> bool:
        """False while records are damaged that the other member has; a holder has nobody to get them from."""
        return not self._core.log.corrupt or self._member.holder is not None

    async def stop(self) -> None:
        self._step(MemberStopAsked(is_joint=bool(self.shutdown_id)))
        limit_s = (self._arguments.config.handover_ns + STOP_GRACE_NS) / SECOND
        try:
            async with asyncio.timeout(limit_s):
                await self._stopped.wait()
        except TimeoutError:
            self._actor.log.error("left_without_a_word", reason="the other member did not take over in time")

    def close(self) -> None:
        self._links.close()

    def _ask_machine(self, event: Event) -> list[Why]:
        """Take a step for an admin action; returns the reasons of its refusals."""
        assert not self._is_busy, "an order comes in a letter or with time, never out of an effect"
        return [effect.why for effect in self._step(event) if isinstance(effect, Refused)]

    def _step(self, event: Event) -> list[Effect]:
        """Take a step, then those that its effects call for, one after another; returns the first step's effects."""
        if self._is_busy:
            self._events.append(event)
            return []
        self._is_busy = True
        effects = self._perform(event)
        while self._events:
            self._perform(self._events.popleft())
        self._is_busy = False
        return effects

    def _perform(self, event: Event) -> list[Effect]:
        view = self._core.log.view()
        self._durable_seen = view.durable
        effects = self._member.step(event, view, self._actor.now())
        self._stand_down()
        for effect in effects:
            self._do(effect)
        return effects

    def _stand_down(self) -> None:
        """Tell the root machine, before any effect, what this member is and may not do any more."""
        state, holder, role = self._member.state, self._member.holder, self._core.root.role
        members = () if holder is None else holder.changes.confirmed
        changed = root_events.PairChanged(state.value, members, self._restoring.is_far_behind(self._member))
        if changed != self._told:
            self._told = changed
            self._core.tell(changed)
        if role.holds and state not in HOLDING:
            self._replication.end()
            self._restoring.given()
            self._core.tell(root_events.Deposed(f"this member is {state.value}"))
        elif (role.is_serving or role.is_handing_over) and state not in ACTING:
            self._core.tell(root_events.Suspended(f"this member is {state.value}"))

    def _do(self, effect: Effect) -> None:
        match effect:
            case TellPeer(path, message):
                self._tell_peer(path, message)
            case Replicate():
                self._replication.asked(effect, self._actor.now())
            case AppendFrames(payload, last):
                self._append_frames(payload, last)
            case StartOver() | TakeFolds() | SendFolds() | SendRange() | RepairLog():
                self._is_fresh |= isinstance(effect, StartOver)
                self._restoring.do(effect)
                if isinstance(effect, RepairLog):
                    self._step(LogChanged())
            case Commit(position):
                if position.sequence <= self._core.log.end.sequence:  # Frames that were refused are not there.
                    self._core.commit(position)
            case AskVoter(voter, question):
                self._ask_voter(voter, question)
            case PersistStore() | GrantEpoch() | AppendNoOp() | CutTo():
                self._change_log(effect)
            case Serve():
                self._core.tell(root_events.Served())
            case CloseAdmission(cause):
                self._core.tell(root_events.HandoverBegun(cause))
            case StopServing(cause=cause):
                self._core.tell(root_events.Suspended(cause))
            case Permit():
                self._core.tell(root_events.Permitted(effect))
            case RaiseLevel(level):
                self._core.tell(root_events.LevelAgreed(level))
            case Transitioned() | CaseTold() | Refused() | StopNow():
                self._note(effect)

    def _refuse(self, reason: str) -> None:
        self._status.refuse(reason)
        self._actor.log.limited("pair_refused", reason, reason=reason)

    def _note(self, effect: Transitioned | CaseTold | Refused | StopNow) -> None:
        log = self._actor.log
        match effect:
            case Transitioned(old, new, cause):
                self._status.moved(new, cause, self._actor.wall_ns())
                log.info("member_state", old=old.value, new=new.value, cause=cause)
                if new is State.READY and self._is_fresh:  # A restart is not to replay what it caught up with.
                    self._is_fresh = False
                    self._core.save_snapshot()
            case CaseTold(case, is_on, detail):
                self._status.told(effect, self._actor.wall_ns())
                log.warning("pair_case", case=case, is_on=is_on, detail=detail)
            case Refused(why):
                self._refuse(str(why))
            case StopNow():
                self._stopped.set()

    def _change_log(self, effect: PersistStore | GrantEpoch | AppendNoOp | CutTo) -> None:
        core = self._core
        match effect:
            case PersistStore(tried_epoch, accepted_epoch, history):
                core.log.promise(tried_epoch, accepted_epoch, core.log.history if history is None else history)
                if history is not None:
                    self._step(LogChanged())
            case GrantEpoch(entry):
                self._replication.end()  # A follower under the epoch before asks again.
                self._restoring.given()
                core.log.grant(entry)
            case AppendNoOp():
                core.tell(root_events.Granted(self._status.cause))
            case CutTo(sequence):
                end = core.log.cut_to(sequence, why="not in the holder's log", node_ns=self._actor.wall_ns())
                if end.sequence == sequence >= core.root.folded_to.sequence:
                    core.tell(root_events.LogCut())
                else:
                    self._actor.fail(f"the log is cut to {end}, below what is folded or asked for: start anew")

    def _append_frames(self, payload: object, last: Position) -> None:
        appended, objection = received(self._core.log, payload, last)
        if objection:
            self._refuse(Objection.IMPOSSIBLE_FRAMES)
            self._actor.log.limited("frames_refused", reason=objection)
            if self._member.following is not None:
                self._step(SessionLost(self._member.following.session))
        self._actions.followed(appended)
        self._core.tell(root_events.FramesFollowed(appended))

    def _tell_peer(self, path: int, message: PeerMessage) -> None:
        if isinstance(message, Heartbeat):
            message = self._actions.marked(self._replication.marked(message))
            message = self._status.marked(message, self._core.root.config.topology_hash, self._actor.wall_ns())
        self._links.others[path].send(message)

    def _ask_voter(self, voter: str, question: Question) -> None:
        if voter in self._plcs:
            self._plcs.ask(voter, question, self._actor.now())
        else:
            self._links.ask(voter, question)

    def describe(self) -> PairStatus:
        """The pair as this member sees it, for `status`."""
        self._status.refused |= self._links.unheard()
        log, hashed = self._core.log.view(), self._core.root.config.topology_hash
        return self._status.describe(self._member, log, self._actor.now(), self._plcs.describe(), hashed)
