"""How long tests wait for what must come: until it is there, and no figure of the machine decides."""

from typing import Final

PATIENCE_S: Final = 90.0
"""Longest wait for a condition. Only a hang meets it; a machine that is busy or stands still for a second does not."""
