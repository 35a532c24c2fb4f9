"""The public Python client of a node, alone or a pair."""

from albireo.client.consumer import Delivered, PairConsumer, Rewound
from albireo.client.errors import ClientError, NameTaken, NodeRefused, NodeUnreachable, ProducerRefused, QueueFull
from albireo.client.members import members_of
from albireo.client.node import NodeClient, StateChange
from albireo.client.pair import PairClient
from albireo.client.producer import PairProducer
from albireo.machine.producer.sending import Acknowledged, BatchRefused

__all__ = [
    "Acknowledged",
    "BatchRefused",
    "ClientError",
    "Delivered",
    "NameTaken",
    "NodeClient",
    "NodeRefused",
    "NodeUnreachable",
    "PairClient",
    "PairConsumer",
    "PairProducer",
    "ProducerRefused",
    "QueueFull",
    "Rewound",
    "StateChange",
    "members_of",
]
