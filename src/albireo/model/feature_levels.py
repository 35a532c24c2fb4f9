"""The feature levels, each with what it brought: a declared list, whose length is the level of this software.

It stands alone so that a build may add to it before anything counts it (`model/feature.py`).
"""

from typing import Final

LEVELS: Final[list[str]] = ["everything in the first release"]
"""Each level's novelties, from level 1 on."""
