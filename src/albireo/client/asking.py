"""Questioning: all that either kind of client is asked with a question and its answer, each method written once."""

from albireo.client.cases import CaseClient
from albireo.client.history import HistoryClient
from albireo.client.load import LoadClient
from albireo.client.message.messaging import MessageClient
from albireo.client.nodes import NodeClient
from albireo.client.orders import OrderClient
from albireo.client.people import PeopleClient


class AskingClient(NodeClient, CaseClient, OrderClient, PeopleClient, HistoryClient, LoadClient, MessageClient):
    """A client, whoever waits for its answers."""
