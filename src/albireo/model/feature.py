"""Feature level: what a version of the software writes that the version before it does not know.

    1    everything until there were levels: software that does not tell its level
    2    levels themselves: the record `FeatureRaised`; references to samples that are not replicated

A log has a level too: that of its last `FeatureRaised`. Nothing of a higher level is written into it, so both members
of a pair, one version apart, can read all of it. Whoever adds a record kind, or anything else that the version before
can't read, adds a level here, and its kind to `codec.record.LEVELS`.

Spec: design/pair.md, rule 11; ADR-0127.
"""

from typing import Final

FIRST_LEVEL: Final = 1
"""Of a log without `FeatureRaised`, and of whoever does not say what it knows."""
FEATURE_LEVEL: Final = 2
"""Of this software."""
OLDEST_LEVEL: Final = FEATURE_LEVEL - 1
"""It works together with one version before, and can be held back to what that one knows."""
