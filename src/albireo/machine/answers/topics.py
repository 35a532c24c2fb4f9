"""Answers about topics: which there are, and to declare, end, subscribe and unsubscribe.

Each change is a record of its own, and answered once both members have it. While one is on its way, another one about
the same topic or subscription is put off: what it would find is not decided yet.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final, Protocol

from msgspec.structs import replace

from albireo.codec.message import AnyMessage
from albireo.codec.questions.kind import Nothing
from albireo.codec.questions.topics import (
    STORE_KEY,
    STORE_KEYS,
    SUBSCRIBE,
    SUBSCRIPTION,
    TOPIC,
    TOPIC_CHANGE,
    TOPIC_CREATE,
    TOPIC_DELETE,
    TOPIC_LAST_PUT,
    TOPIC_PURGE,
    TOPIC_READERS,
    TOPIC_TABLES,
    TOPICS,
    UNSUBSCRIBE,
    LastPut,
    LastPutAsked,
    StoreKeyAsked,
    StoreKeysAsked,
    StoreKeyTold,
    SubscribeAsked,
    SubscriptionAsked,
    SubscriptionTold,
    TopicAsked,
    TopicNamed,
    TopicPolicyAsked,
    TopicReader,
    TopicsAsked,
    TopicTablesTold,
)
from albireo.codec.record import Audited, Stream
from albireo.codec.topic_records import (
    Subscribed,
    TopicChanged,
    TopicDeclared,
    TopicDropped,
    TopicPurged,
    TopicRecord,
    Unsubscribed,
)
from albireo.machine.access.judge import AccessJudge
from albireo.machine.desk.roles import RoleNeeded, check_role
from albireo.machine.fold.folds import Folds
from albireo.machine.fold.topics.keys import TopicKeys
from albireo.machine.fold.topics.subscriptions import Cursors, Subscriptions
from albireo.machine.fold.topics.topics import Topics
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.handling import handled
from albireo.machine.kernel.turn import NotAnswered, Question, Turn, answer_to
from albireo.machine.orders.places import Places
from albireo.model.access import AccessRole
from albireo.model.position import Position
from albireo.model.principal import is_of_node
from albireo.model.refusal import Refusal, RefusalCode
from albireo.model.settings import StreamReplication
from albireo.model.topic import (
    CURSORS_MAX,
    SUBSCRIPTIONS_MAX,
    TOPICS_MAX,
    Subscription,
    Topic,
    TopicPolicy,
    is_wild,
    matcher,
)

TOPIC_FOLDS: Final = (Topics, Subscriptions, Cursors, TopicKeys)
READERS_TOLD: Final = 1_000
_Subject = tuple[str, str]
"""Kind and name of what a change is about: a `topic`, a `subscriber`, or the topic that is `subscribed` to."""


class TopicRoot(Protocol):
    """The root machine, as far as these answers need it."""

    config: RootConfig
    folds: Folds
    folded_to: Position
    access: AccessJudge

    def after(self, sequence: int, to: bytes, message: AnyMessage, turn: Turn) -> None:
        """Say `message` once everything up to `sequence` is committed."""


class TopicAnswers:
    """The part of the answers that is about topics."""

    def __init__(self, root: TopicRoot, _: Places) -> None:
        self._root = root
        self._under_way: dict[_Subject, int] = {}
        """Sequence of the last record about a subject that is appended and may not be folded yet."""
        self.handlers = (
            handled(TOPIC_CREATE, self._create),
            handled(TOPIC_DELETE, self._delete),
            handled(TOPIC_CHANGE, self._change),
            handled(TOPIC_PURGE, self._purge),
            handled(TOPIC, self._topic),
            handled(TOPICS, self._topics),
            handled(TOPIC_READERS, self._readers),
            handled(TOPIC_LAST_PUT, self._last_put),
            handled(TOPIC_TABLES, self._tables),
            handled(STORE_KEY, self._store_key),
            handled(STORE_KEYS, self._store_keys),
            handled(SUBSCRIPTION, self._subscription),
            handled(SUBSCRIBE, self._subscribe),
            handled(UNSUBSCRIBE, self._unsubscribe),
        )

    def _topic(self, question: Question, asked: TopicNamed, turn: Turn) -> None:
        turn.answer(question, _told(self._known(asked.name)))

    def _topics(self, question: Question, asked: TopicsAsked, turn: Turn) -> None:
        after = asked.after
        found = (one for one in self._root.folds.of(Topics) if one.topic_id > after)
        turn.answer(question, asked.told((one.topic_id, _told(one)) for one in found))

    def _readers(self, question: Question, asked: TopicNamed, turn: Turn) -> None:
        folds, topic = self._root.folds, self._known(asked.name)
        cursors, subscriptions = folds.of(Cursors), folds.of(Subscriptions)
        told = [
            TopicReader(
                subscription=one,
                unread=cursors.unread(number, topic.topic_id) or 0,
                leased=cursors.leased(number, topic.topic_id),
            )
            for number in islice(sorted(cursors.readers(topic.topic_id)), READERS_TOLD)
            if (one := subscriptions.find(number)) is not None
        ]
        turn.answer(question, told)

    def _last_put(self, question: Question, asked: LastPutAsked, turn: Turn) -> None:
        found = (self._root.folds.producers.named(f"{one}.{asked.name}") for one in ("put", "own"))
        known = max((one for one in found if one is not None), key=lambda one: one.last_position, default=None)
        if known is None or not known.last_position:
            turn.answer(question, LastPut())
            return
        at = {"sequence": known.last_position, "at_ns": known.last_node_ns}
        turn.answer(question, LastPut(batches=known.last_sequence, **at))

    def _store_key(self, question: Question, asked: StoreKeyAsked, turn: Turn) -> None:
        topic = self._known_store(asked.name)
        turn.answer(question, StoreKeyTold(entry=self._root.folds.of(TopicKeys).entry(topic.topic_id, asked.key)))

    def _store_keys(self, question: Question, asked: StoreKeysAsked, turn: Turn) -> None:
        topic, after = self._known_store(asked.name), asked.after
        rows = self._root.folds.of(TopicKeys).entries(topic.topic_id)
        found = (one for one in rows if one.number > after and one.key.startswith(asked.prefix))
        turn.answer(question, asked.told((one.number, one) for one in found))

    def _known_store(self, name: str) -> Topic:
        topic = self._known(name)
        if not topic.policy.last_value:
            raise NotAnswered(Refusal(RefusalCode.BAD_VALUE, f"the topic {name!r} is no key-value store"))
        return topic

    def _tables(self, question: Question, _: Nothing, turn: Turn) -> None:
        folds = [self._root.folds.of(one) for one in TOPIC_FOLDS]
        sections = {one.shape.name: one.table.snapshot() for one in folds}
        turn.answer(question, TopicTablesTold(position=self._root.folded_to, sections=sections))

    def _create(self, question: Question, asked: TopicPolicyAsked, turn: Turn) -> None:
        subject = ("topic", asked.name)
        self._settled(subject)
        topics = self._root.folds.of(Topics)
        if (known := topics.named(asked.name)) is not None:
            turn.answer(question, _told(known))
            return
        _check(asked.policy)
        if len(topics) + len(self._under_way) >= TOPICS_MAX:
            raise NotAnswered(Refusal(RefusalCode.FULL, f"there are {TOPICS_MAX} topics", "delete one first"))
        self._check_room(len(self._root.folds.of(Subscriptions).to(asked.name)))
        config = self._root.config
        replication = config.topics_replication if asked.replication is None else asked.replication
        may_stay = not config.is_paired or Stream.OWN_PUTS in config.private_streams
        if replication is not StreamReplication.ALL and not may_stay:
            cause = "no topic of this node stays with one member"
            remedy = 'write own_puts = "configuration" to [node.replication] first'
            raise NotAnswered(Refusal(RefusalCode.BAD_VALUE, cause, remedy))
        about = {"name": asked.name, "since_ns": question.moment.wall, "policy": asked.policy}
        about |= {"replication": replication, "member": config.member}
        end = turn.record(Stream.STATE, [TopicDeclared(**about)])  # type: ignore[arg-type]
        topic = Topic(topic_id=end, **about)  # type: ignore[arg-type]
        self._done(question, asked, "topic_created", [subject], topic, turn)

    def _delete(self, question: Question, asked: TopicAsked, turn: Turn) -> None:
        subject = ("topic", asked.name)
        readers = self._root.folds.of(Subscriptions).to(asked.name)
        named = {name for one in readers for name in one.patterns}
        self._settled(subject, ("subscribed", asked.name), *(("topic", name) for name in sorted(named)))
        topic = self._known(asked.name)
        turn.record(Stream.STATE, _end_of(topic, self._root.folds))
        self._done(question, asked, "topic_deleted", [subject], _told(topic), turn)

    def _change(self, question: Question, asked: TopicPolicyAsked, turn: Turn) -> None:
        subject = ("topic", asked.name)
        self._settled(subject)
        topic = self._known(asked.name)
        _check(asked.policy)
        if asked.policy.last_value != topic.policy.last_value:
            cause = "a topic begins as a key-value store, or never becomes one"
            raise NotAnswered(Refusal(RefusalCode.BAD_VALUE, cause, "create another topic"))
        gone = self._root.folds.of(Cursors).kept_from(topic, self._root.folds.log_time_ms)
        turn.record(Stream.STATE, [TopicChanged(topic_id=topic.topic_id, policy=asked.policy, gone=gone)])
        self._done(question, asked, "topic_changed", [subject], replace(_told(topic), policy=asked.policy), turn)

    def _purge(self, question: Question, asked: TopicAsked, turn: Turn) -> None:
        subject = ("topic", asked.name)
        self._settled(subject)
        topic = self._known(asked.name)
        turn.record(Stream.STATE, [TopicPurged(topic_id=topic.topic_id)])
        self._done(question, asked, "topic_purged", [subject], _told(topic), turn)

    def _subscribe(self, question: Question, asked: SubscribeAsked, turn: Turn) -> None:
        names = [one for one in asked.patterns if not is_wild(one)]
        subject = ("subscriber", asked.subscriber)
        self._settled(subject, *(("topic", one) for one in names))
        subscriptions, topics = self._root.folds.of(Subscriptions), self._root.folds.of(Topics)
        self._check_owner(question, asked, turn)
        if (known := subscriptions.of(asked.subscriber, asked.patterns)) is not None:
            if known.sharing != asked.sharing:
                how = "is not shared" if known.sharing is None else f"is shared with {known.sharing.told}"
                cause = f"{asked.subscriber!r} has this subscription already, and it {how}"
                raise NotAnswered(
                    Refusal(RefusalCode.BAD_VALUE, cause, "end it first, or subscribe under another name")
                )
            turn.answer(question, known)
            return
        self._check_sharing(asked)
        for name in names:
            self._known(name)
        if len(subscriptions) + len(self._under_way) >= SUBSCRIPTIONS_MAX:
            raise NotAnswered(
                Refusal(RefusalCode.FULL, f"there are {SUBSCRIPTIONS_MAX} subscriptions", "end one first")
            )
        self._check_room(len(topics.meant(asked.patterns)))
        began = {"since_ns": question.moment.wall, "principal": question.principal}
        record = Subscribed(
            subscriber=asked.subscriber,
            patterns=asked.patterns,
            is_from_first=asked.is_from_first,
            sharing=asked.sharing,
            **began,  # type: ignore[arg-type]
        )
        end = turn.record(Stream.STATE, [record])
        told = Subscription(
            subscription_id=end,
            subscriber=asked.subscriber,
            patterns=asked.patterns,
            sharing=asked.sharing,
            **began,  # type: ignore[arg-type]
        )
        self._done(question, asked, "subscribed", [subject, *(("subscribed", one) for one in names)], told, turn)

    def _check_sharing(self, asked: SubscribeAsked) -> None:
        """Refuse dead letters that make no sense, or would come back."""
        if asked.sharing is None or not (asked.sharing.problem() or asked.sharing.dead_letters):
            return
        if problem := asked.sharing.problem():
            raise NotAnswered(Refusal(RefusalCode.BAD_VALUE, problem, "give both, or neither"))
        target = asked.sharing.dead_letters
        if self._root.folds.of(Topics).named(target) is None:
            raise NotAnswered(_unknown(target))
        if matcher(asked.patterns).fullmatch(target):
            cause = f"dead letters would go to {target!r}, to which this subscription is"
            raise NotAnswered(Refusal(RefusalCode.BAD_VALUE, cause, "name another topic, or narrower patterns"))

    def _unsubscribe(self, question: Question, asked: SubscriptionAsked, turn: Turn) -> None:
        subject = ("subscriber", asked.subscriber)
        self._settled(subject)
        self._check_owner(question, asked, turn)
        known = self._subscribed(asked)
        turn.record(Stream.STATE, [Unsubscribed(subscription_id=known.subscription_id)])
        self._done(question, asked, "unsubscribed", [subject], known, turn)

    def _subscription(self, question: Question, asked: SubscriptionAsked, turn: Turn) -> None:
        root, not_before = self._root, turn.log.committed
        if root.folded_to >= not_before:  # What came after the last change may reach the actor much later.
            changed_at = max(root.folds.of(one).table.changed_at for one in TOPIC_FOLDS)
            not_before = turn.log.history.position(changed_at)
        told = SubscriptionTold(subscription=self._subscribed(asked), not_before=not_before)
        turn.answer(question, told)

    def _subscribed(self, asked: SubscriptionAsked) -> Subscription:
        known = self._root.folds.of(Subscriptions).of(asked.subscriber, asked.patterns)
        if known is None:
            cause = f"{asked.subscriber!r} has no subscription to {', '.join(asked.patterns)}"
            remedy = "subscribe first; `albireo topic show NAME` lists who has"
            raise NotAnswered(Refusal(RefusalCode.UNKNOWN_NAME, cause, remedy))
        return known

    def _check_room(self, more: int) -> None:
        """Refuse so many more cursors: patterns and topics multiply."""
        if len(self._root.folds.of(Cursors)) + more > CURSORS_MAX:
            cause = f"{CURSORS_MAX} topics of subscriptions are kept, counting each topic for each subscription"
            raise NotAnswered(Refusal(RefusalCode.FULL, cause, "end a subscription, or use narrower patterns"))

    def _check_owner(self, question: Question, asked: SubscriptionAsked, turn: Turn) -> None:
        """Refuse the name of a subscriber that belongs to another principal, save to an admin."""
        owner = self._root.folds.of(Subscriptions).owner(asked.subscriber)
        node = self._root.config.node
        if owner is not None and is_of_node(owner, node) and is_of_node(question.principal, node):
            return
        if owner not in (None, question.principal):
            subject = f"subscriber {asked.subscriber} of {owner}"
            check_role(
                self._root.access,
                question,
                RoleNeeded(self._root.config.node, subject, asked.user, AccessRole.ADMIN),
                turn,
            )

    def _known(self, name: str) -> Topic:
        topic = self._root.folds.of(Topics).named(name)
        if topic is None:
            raise NotAnswered(_unknown(name))
        return topic

    def _settled(self, *subjects: _Subject) -> None:
        """Refuse while a record about one of these is on its way."""
        folded = self._root.folded_to.sequence
        self._under_way = {one: end for one, end in self._under_way.items() if end > folded}
        for one in subjects:
            if one in self._under_way:
                raise NotAnswered(Refusal(RefusalCode.NOT_YET, f"{one[1]!r} is being changed", "ask again"))

    def _done(
        self,
        question: Question,
        asked: TopicAsked | SubscriptionAsked,
        action: str,
        subjects: Sequence[_Subject],
        told: Topic | Subscription,
        turn: Turn,
    ) -> None:
        """Put on record who did it, and answer once that is committed."""
        detail = (
            asked.reason if isinstance(asked, TopicAsked) else f"{', '.join(asked.patterns)} {asked.reason}".strip()
        )
        entry = Audited(
            at_ns=question.moment.wall,
            user=asked.user,
            action=action,
            subject=subjects[0][1],
            detail=detail,
            principal=question.principal,
        )
        end = turn.record(Stream.AUDIT, [entry])
        self._under_way |= dict.fromkeys(subjects, end)
        self._root.after(end, question.sender, answer_to(question.request_id, told), turn)


def end_left_behind(folds: Folds, member: int, turn: Turn) -> None:
    """End the topics that were to live with the other member only: this one leads now."""
    for topic in list(folds.of(Topics)):
        if topic.replication is StreamReplication.NONE and topic.member != member:
            turn.record(Stream.STATE, _end_of(topic, folds))
            turn.note("info", "topic_ended", topic=topic.name, reason="it was with the other member only")


def _end_of(topic: Topic, folds: Folds) -> list[TopicRecord]:
    """Records that end a topic, and the subscriptions that name no other one."""
    topics = folds.of(Topics)
    ended = [
        one
        for one in folds.of(Subscriptions).to(topic.name)
        if not any(is_wild(name) or (name != topic.name and topics.named(name)) for name in one.patterns)
    ]
    records: list[TopicRecord] = [TopicDropped(topic_id=topic.topic_id)]
    return records + [Unsubscribed(subscription_id=one.subscription_id) for one in ended]


def _told(topic: Topic) -> Topic:
    """A topic without that of it which only folds need."""
    return replace(topic, marks=())


def _check(policy: TopicPolicy) -> None:
    if problem := policy.problem():
        raise NotAnswered(Refusal(RefusalCode.BAD_VALUE, problem, "leave one of the two out, or make keep_s shorter"))


def _unknown(name: str) -> Refusal:
    return Refusal(RefusalCode.UNKNOWN_TOPIC, f"there is no topic {name!r}", "`albireo topic list` lists them")
