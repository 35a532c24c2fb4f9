"""Access at a node with keys: the root machine learns what the key directory says, and judges admin actions.

The links read the directory anew when it has changed (runtime/link/tcp.py); a look here only sees that they did.
"""

from collections.abc import Mapping

from albireo.codec.message import Ask
from albireo.machine.access.judge import RefusedAccess
from albireo.machine.kernel.events import KeysListed
from albireo.model.access import RoleGrant
from albireo.node.membership.membership import LogAndFolds
from albireo.runtime import ActorContext, Keys


class KeyAccess:
    """Access of one run of CORE; tells the root machine at once."""

    def __init__(self, core: LogAndFolds, actor: ActorContext, keys: Keys | None) -> None:
        self._core = core
        self._actor = actor
        self._keys = keys
        self._told: Mapping[str, RoleGrant] | None = None
        self.look()

    def look(self) -> None:
        """Tell the root machine what the key directory says, if that is new."""
        if self._keys is not None and self._keys.roles is not self._told:
            self._told = self._keys.roles
            self._core.tell(KeysListed(self._told))

    def refused(self, principal: str, ask: Ask) -> RefusedAccess | None:
        """The refusal of an admin action, if the principal may not ask for it."""
        access = self._core.root.access
        if not access.lacks(principal, ask):
            return None
        return access.refused(principal, ask, self._actor.now(), self._actor.wall_ns())
