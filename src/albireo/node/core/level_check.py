"""Check, at CORE's start, that this node knows the log's feature level: what it can't read it would not fold.

Spec: design/pair.md, rule 11; ADR-0127.
"""

from collections.abc import Sequence

from albireo.codec.frame import Frame
from albireo.machine.fold.folds import Folds, level_of
from albireo.model.feature import FEATURE_LEVEL
from albireo.runtime.errors import ConfigurationRefused


def check_level(folds: Folds, uncommitted: Sequence[Frame], known: int) -> None:
    """Refuse a log above the feature level that this node knows.

    Raises:
        ConfigurationRefused: the log is, or may soon be, above `known`.
    """
    level = max(folds.feature_level, level_of(uncommitted))
    if level > known:
        held = "without feature_level in the topology and --feature-level"
        remedy = "start the newer version" if known == FEATURE_LEVEL else f"start it {held}"
        raise ConfigurationRefused(f"the log is at feature level {level}, this node knows {known}; {remedy}")
