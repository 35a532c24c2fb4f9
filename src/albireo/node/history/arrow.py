"""Setting of pyarrow for the whole process of a history: it does without pandas. Decision: ADR-0136."""

import sys
from collections.abc import Sequence
from types import ModuleType

import pyarrow as pa


class _NoPandas:
    """A finder of modules that finds no pandas. A None in `sys.modules` would do for Python, but not for Cython."""

    @staticmethod
    def find_spec(name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None) -> None:
        if name == "pandas":
            raise ImportError("pandas is left out while pyarrow asks for it")


def leave_pandas_out() -> None:
    """Have pyarrow take pandas for absent.

    The first time pyarrow is given a list it imports pandas, where that is installed, only to ask whether the list is a
    Series: 50 MB that a history never uses. It asks once per process and is told no here; everybody else may import
    pandas as before, and `to_pandas` asks again.
    """
    if "pandas" in sys.modules:
        return
    sys.meta_path.insert(0, _NoPandas)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(_NoPandas)
