"""The actor loop, ZeroMQ links, supervision, placement. No domain knowledge.

Example:
    async def main() -> None:
        await run_actor(Echo(), Path("var/root"))
"""

from albireo.runtime.actor.actor import ActorContext, Behaviour, Supervised, run_actor, running
from albireo.runtime.actor.journal import Journal
from albireo.runtime.actor.mailbox import Mailbox, Overflow
from albireo.runtime.actor.placement import ActorSpec
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
    NodeSilent,
    PeerUnreachable,
    RuntimeFault,
    StartFailed,
    StoreRefused,
)
from albireo.runtime.link.keys import Keys
from albireo.runtime.link.links import TurnLimits
from albireo.runtime.link.probe import Reach
from albireo.runtime.link.sockets import Letter, Link, LinkLimits, SyncLink

__all__ = [
    "ActorContext",
    "ActorFailed",
    "ActorHung",
    "ActorSpec",
    "AddressTaken",
    "Behaviour",
    "ConfigurationRefused",
    "DataLocked",
    "DirectoryUnsafe",
    "EndpointRefused",
    "Journal",
    "Keys",
    "KeysRefused",
    "Letter",
    "Link",
    "LinkLimits",
    "Mailbox",
    "MailboxFull",
    "NodeSilent",
    "Overflow",
    "PeerUnreachable",
    "Reach",
    "RuntimeFault",
    "StartFailed",
    "StoreRefused",
    "Supervised",
    "SyncLink",
    "TurnLimits",
    "run_actor",
    "running",
]
