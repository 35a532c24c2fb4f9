"""Time zones that people name."""

from zoneinfo import ZoneInfo


def zone_named(name: str) -> ZoneInfo:
    """The zone of that name.

    Raises:
        ValueError: this machine knows none.
    """
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError) as error:
        raise ValueError(f"zone {name!r} is not known: write one such as Europe/Vienna") from error
