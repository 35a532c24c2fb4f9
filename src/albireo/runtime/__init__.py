"""The actor loop, ZeroMQ links, supervision, placement. No domain knowledge.

Example:
    async def main() -> None:
        await run_actor(Echo(), Path("var/root"))
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from albireo.runtime.actor.actor import ActorContext, Behaviour, Supervised, run_actor, running
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
    from albireo.runtime.journal import Journal
    from albireo.runtime.link.keys import Keys
    from albireo.runtime.link.links import TurnLimits
    from albireo.runtime.link.probe import Reach
    from albireo.runtime.link.sockets import Letter, Link, LinkLimits, SyncLink
    from albireo.runtime.mailbox import Mailbox, Overflow

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

_HOMES = {
    "albireo.runtime.actor.actor": (
        "ActorContext",
        "Behaviour",
        "Supervised",
        "run_actor",
        "running",
    ),
    "albireo.runtime.journal": ("Journal",),
    "albireo.runtime.mailbox": (
        "Mailbox",
        "Overflow",
    ),
    "albireo.runtime.actor.placement": ("ActorSpec",),
    "albireo.runtime.errors": (
        "ActorFailed",
        "ActorHung",
        "AddressTaken",
        "ConfigurationRefused",
        "DataLocked",
        "DirectoryUnsafe",
        "EndpointRefused",
        "KeysRefused",
        "MailboxFull",
        "NodeSilent",
        "PeerUnreachable",
        "RuntimeFault",
        "StartFailed",
        "StoreRefused",
    ),
    "albireo.runtime.link.keys": ("Keys",),
    "albireo.runtime.link.links": ("TurnLimits",),
    "albireo.runtime.link.probe": ("Reach",),
    "albireo.runtime.link.sockets": (
        "Letter",
        "Link",
        "LinkLimits",
        "SyncLink",
    ),
}
"""Names by the module that has them: each is loaded when it is first used, for a client needs few of them."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """A name of this room, from its module."""
        home = next((module for module, names in _HOMES.items() if name in names), None)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(home), name)
