"""Feature level: count of the additions to the formats that the version of before does not know.

A log has the level of its last `FeatureRaised`. Nothing of a higher level is written into it, so both members of a
pair, one version apart, can read all of it. Whoever adds a record kind, or anything else that the previous version
can't read, adds a line to `LEVELS` (feature_levels.py) and declares the kind with its level (`codec.record.declare`).

Spec: design/pair.md, rule 11; ADR-0127, ADR-0228.
"""

from typing import Final

from albireo.model.feature_levels import LEVELS

STORE_FORMAT: Final = 1
"""Number of the format of everything on a disk. It stands in the header of each store, which is refused by it; every
other file has it too. A change that a feature level does not hold back makes it another number."""

FIRST_LEVEL: Final = 1
"""Level of a log without `FeatureRaised`."""
FEATURE_LEVEL: Final = len(LEVELS)
"""Level of this software."""
OLDEST_LEVEL: Final = max(FIRST_LEVEL, FEATURE_LEVEL - 1)
"""Lowest level with which this software works together, and to which it can be held back."""
