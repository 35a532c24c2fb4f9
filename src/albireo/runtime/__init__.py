"""The actor loop, ZeroMQ links, supervision, placement. No domain knowledge.

Example:
    async def main() -> None:
        await run_actor(Echo(), Path("var/root"))
"""

from albireo.runtime.actor import ActorContext, Behaviour, Supervised, run_actor, running
from albireo.runtime.errors import (
    ActorFailed,
    ActorHung,
    AddressTaken,
    ConfigurationRefused,
    DataLocked,
    DirectoryUnsafe,
    EndpointRefused,
    KeysRefused,
    MailboxFull,
    NodeUnreachable,
    PeerUnreachable,
    RuntimeFault,
    StartFailed,
    StoreRefused,
)
from albireo.runtime.journal import Journal
from albireo.runtime.keys import Keys
from albireo.runtime.links import TurnLimits
from albireo.runtime.mailbox import Mailbox, Overflow
from albireo.runtime.node import run_node
from albireo.runtime.placement import ActorSpec
from albireo.runtime.probe import Reach
from albireo.runtime.sockets import Letter, Link, LinkLimits, SyncLink
from albireo.runtime.supervision import Escalated, SupervisionConfig
from albireo.runtime.supervisor import ActorChanged, ActorState, Supervisor

__all__ = [
    "ActorChanged",
    "ActorContext",
    "ActorFailed",
    "ActorHung",
    "ActorSpec",
    "ActorState",
    "AddressTaken",
    "Behaviour",
    "ConfigurationRefused",
    "DataLocked",
    "DirectoryUnsafe",
    "EndpointRefused",
    "Escalated",
    "Journal",
    "Keys",
    "KeysRefused",
    "Letter",
    "Link",
    "LinkLimits",
    "Mailbox",
    "MailboxFull",
    "NodeUnreachable",
    "Overflow",
    "PeerUnreachable",
    "Reach",
    "RuntimeFault",
    "StartFailed",
    "StoreRefused",
    "Supervised",
    "SupervisionConfig",
    "Supervisor",
    "SyncLink",
    "TurnLimits",
    "run_actor",
    "run_node",
    "running",
]
