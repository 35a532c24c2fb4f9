"""The public Python client of a node, alone or a pair. For users: docs/client.md."""

from typing import TYPE_CHECKING

from albireo.client.cases import CaseMeant, CaseOutcome
from albireo.client.client import Client, connect
from albireo.client.consumer import Delivered, Rewound
from albireo.client.errors import (
    AccessRefused,
    AlreadySelected,
    AnswerNotUnderstood,
    ArgumentRefused,
    ClientBusy,
    ClientClosed,
    ClientError,
    CommandIdReused,
    FileNotReceived,
    FileNotSent,
    HistoryCutShort,
    KeyNotTrusted,
    NameTaken,
    NodeRefused,
    NodeUnreachable,
    NotDelivered,
    NotInTime,
    NotSelected,
    OutcomeUnknown,
    ProducerRefused,
    QuestionUnknown,
    QueueFull,
    SessionOver,
    TargetRefused,
)
from albireo.client.live import Changes
from albireo.client.nodes import ItemReading
from albireo.client.producer import SampleProducer
from albireo.client.target import members_of
from albireo.client.topic_message import NewMessage, TopicMessage
from albireo.codec.questions.messages import InboxMessage
from albireo.codec.questions.people import TicketGiven
from albireo.machine.feed.viewing import StateChange
from albireo.machine.producer.sending import Acknowledged, BatchRefused
from albireo.model.case import ItemCase
from albireo.model.command import ItemSelection
from albireo.model.topic import TopicPolicy, WhenFull
from albireo.model.topic_lease import Sharing
from albireo.model.tree.session import SessionRow

if TYPE_CHECKING:
    from albireo.client.aio import AsyncClient, aconnect

__all__ = [
    "AccessRefused",
    "Acknowledged",
    "AlreadySelected",
    "AnswerNotUnderstood",
    "ArgumentRefused",
    "AsyncClient",
    "BatchRefused",
    "CaseMeant",
    "CaseOutcome",
    "Changes",
    "Client",
    "ClientBusy",
    "ClientClosed",
    "ClientError",
    "CommandIdReused",
    "Delivered",
    "FileNotReceived",
    "FileNotSent",
    "HistoryCutShort",
    "InboxMessage",
    "ItemCase",
    "ItemReading",
    "ItemSelection",
    "KeyNotTrusted",
    "NameTaken",
    "NewMessage",
    "NodeRefused",
    "NodeUnreachable",
    "NotDelivered",
    "NotInTime",
    "NotSelected",
    "OutcomeUnknown",
    "ProducerRefused",
    "QuestionUnknown",
    "QueueFull",
    "Rewound",
    "SampleProducer",
    "SessionOver",
    "SessionRow",
    "Sharing",
    "StateChange",
    "TargetRefused",
    "TicketGiven",
    "TopicMessage",
    "TopicPolicy",
    "WhenFull",
    "aconnect",
    "connect",
    "members_of",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """The client for asyncio, loaded when it is first used: a program of threads does without it."""
        if name in ("AsyncClient", "aconnect"):
            from albireo.client import aio

            return getattr(aio, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
