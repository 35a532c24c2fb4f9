"""Makes a process one of the next version, before anything else of it runs: this folder and the checkout are on its
PYTHONPATH."""

from albireo.model.feature_levels import LEVELS

LEVELS.append("remarks")  # Before anything is imported that counts the levels.

from tests.own.next_version.remarks import declare  # noqa: E402

declare()
