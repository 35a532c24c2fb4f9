"""Leading: what a `LedAdapter` hears of the role of its member, and the last look at what it sends without an order."""

from collections.abc import Callable

from albireo.field.contract import GOES_ON, LedAdapter, WriteTenure
from albireo.field.role import STANDS_BY, AdapterRole
from albireo.model.instant import Instant


class Leading:
    """The side of COMM towards one adapter that sends by itself."""

    def __init__(self, adapter: LedAdapter, now: Callable[[], Instant], write_max_ns: int) -> None:
        """`write_max_ns`: longest way of what is sent to its device."""
        self._adapter = adapter
        self._now = now
        self._write_max_ns = write_max_ns
        self._role = AdapterRole(is_acting=False)
        self._tenure: WriteTenure | None = None

    def role_is(self, role: AdapterRole, welcomed: int) -> None:
        """Tell the adapter under which tenure it acts, if that is another one. `welcomed`: see `AdapterRole.tenure`."""
        self._role = role
        tenure = role.tenure(welcomed) if role.is_acting and max(role.epoch, welcomed) else None
        if tenure != self._tenure:
            self._tenure = tenure
            self._adapter.led(tenure, self._may_send)

    @property
    def needs_permit(self) -> bool:
        """True: it acts, and its permit has to be asked for again and again."""
        return self._role.is_acting and self._role.is_paired

    def _may_send(self) -> str:
        if not self._role.is_acting:
            return STANDS_BY
        return self._role.own_objection(self._now(), self._write_max_ns) if self._role.is_paired else GOES_ON
