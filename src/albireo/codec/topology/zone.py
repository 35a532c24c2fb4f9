"""Time zones that people name. The list of them is the machine's, read by the standard library; UTC needs none."""

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo

from albireo.codec.topology.mistakes import Findings, shown
from albireo.model.topology import Topology


class ZoneUnknown(ValueError):
    """A name that this machine has no zone for."""

    def __init__(self, name: str) -> None:
        self.cause = f"{shown(name)} is no zone that this machine knows"
        self.remedy = "Write one such as Europe/Vienna; a machine without a list of zones needs the package tzdata."
        super().__init__(f"{self.cause}. {self.remedy}")


def zone_named(name: str) -> tzinfo:
    """The zone of that name in the tz database.

    Raises:
        ZoneUnknown: this machine knows none.
    """
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (ValueError, OSError, LookupError) as error:
        raise ZoneUnknown(name) from error


def check_zone(topology: Topology, found: Findings) -> None:
    """Check that the machine that reads the file knows its zone."""
    try:
        zone_named(topology.zone)
    except ZoneUnknown as error:
        found.add(("zone",), error.cause, error.remedy)
