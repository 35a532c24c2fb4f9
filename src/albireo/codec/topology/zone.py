"""Time zones that people name. The list of them is the machine's, read by the standard library; UTC needs none."""

from datetime import UTC, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from albireo.codec.topology.mistakes import Findings, shown
from albireo.model.topology import Topology

ZONE_REMEDY: Final = "Write one such as Europe/Vienna; a machine without a list of zones needs the package tzdata."


def zone_named(name: str) -> tzinfo:
    """The zone of that name in the tz database. Raises ValueError: this machine knows none."""
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (ValueError, OSError, LookupError) as error:
        raise ValueError(f"{shown(name)} is no zone that this machine knows") from error


def check_zone(topology: Topology, found: Findings) -> None:
    """Check that the machine that reads the file knows its zone."""
    try:
        zone_named(topology.zone)
    except ValueError as error:
        found.add(("zone",), str(error), ZONE_REMEDY)
