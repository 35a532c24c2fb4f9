"""CRC-32C of any buffer, from the package `crc32c` (ADR-0085), without the `__init__` of that package.

Its `__init__` asks importlib.metadata for its own version, and that brings email, csv, zipfile and tempfile: 4 MB in
each process that checks a frame. So the compiled module is loaded by itself. Decision: ADR-0136.
"""

from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crc32c import crc32c as crc32c
else:

    def _load() -> object:
        package = PathFinder.find_spec("crc32c")
        places = None if package is None else package.submodule_search_locations
        spec = None if places is None else PathFinder.find_spec("crc32c._crc32c", places)
        if spec is None:
            raise ImportError("the package crc32c is not installed, or has no module _crc32c")
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    crc32c = _load().crc32c
