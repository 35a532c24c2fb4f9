"""A tree of whole nodes under faults, by seed; see docs/simulation.md.

A failure prints the seed; `TreeWorld(seed).play()` plays it again, and `TreeWorld.trace` tells it line by line.
"""

from typing import Final

import pytest

from albireo.sim.tree.shortcuts import SHORTCUTS, catch
from albireo.sim.tree.world import TreeWorld
from tests.long_form import IS_LONG, some

FOUND: Final = (4, 17, 43, 222)
"""Seeds that found something: forks two levels below, branches of equal epochs, a restored site not followed."""
LONG: Final = frozenset({"a fork is not marked", "the epochs of a copy are not told"})
"""Shortcuts that show only after a minute in which nothing comes."""


@pytest.mark.parametrize("seed", sorted({*some(range(500), 12), *FOUND}), ids=lambda seed: f"seed-{seed}")
def test_every_copy_is_true_once_and_whole(seed: int) -> None:
    TreeWorld(seed).play()


@pytest.mark.parametrize("name", [name for name in SHORTCUTS if IS_LONG or name not in LONG])
def test_a_tree_that_takes_a_shortcut_is_caught(name: str) -> None:
    assert catch(name, range(50)) is not None
