"""Albireo: monitoring and control that can be trusted. Start reading at docs/ARCHITECTURE.md.

from albireo import connect                # docs/client.md
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from albireo.client import aconnect as aconnect
    from albireo.client import connect as connect

__version__ = "0.2.0.dev0"

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """The client, loaded when it is first used: the processes of a node do without it."""
        if name in ("aconnect", "connect"):
            from albireo import client

            return getattr(client, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
