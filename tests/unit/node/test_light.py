"""What a process of a node loads: nothing that it never uses. How many megabytes that saves is in `bench idle`."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

HEAVY = (
    "click",
    "crc32c",
    "email",
    "importlib.metadata",
    "numpy",
    "pandas",
    "psutil",
    "pyarrow",
    "pymodbus",
    "rich",
    "tomllib",
)
PROCESS = "import albireo.runtime.actor.process, "
"""The main program of an actor's process, before the module of its actor."""


def loaded(code: str) -> set[str]:
    """Which heavy libraries a fresh process has after `code`."""
    told = f"{code}\nimport sys\nprint(*(name for name in {HEAVY} if name in sys.modules))"
    ran = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


def test_a_logger_needs_no_library_but_messages_and_links() -> None:
    assert loaded(PROCESS + "albireo.node.logger") == set()


def test_a_witness_imports_no_numpy_and_no_pyarrow() -> None:
    """Its whole process: command, topology, boot, logger and witness."""
    code = "import albireo.cli.pair.witness, albireo.node.logger, albireo.node.vote.witness"
    assert loaded(code) <= {"click", "tomllib", "importlib.metadata", "email"}


def test_boot_imports_what_reads_a_topology_and_supervises() -> None:
    kinds = "from albireo.field.offered import KnownKinds\ndict(KnownKinds())"
    assert loaded(f"import albireo.cli.node.node\n{kinds}") <= {"click", "tomllib", "importlib.metadata", "email"}


def test_core_imports_numpy_and_nothing_else_that_is_heavy() -> None:
    assert loaded(PROCESS + "albireo.node.core.actor") == {"numpy"}


def test_a_history_imports_arrow() -> None:
    assert loaded(PROCESS + "albireo.node.history") == {"numpy", "pyarrow"}


@pytest.mark.parametrize(("kind", "library"), [("modbus.adapter", "pymodbus"), ("host.adapter", "psutil")])
def test_an_adapter_imports_its_own_library_only(kind: str, library: str) -> None:
    assert loaded(f"{PROCESS}albireo.field.comm, albireo.field.{kind}") == {"numpy", library}


def test_a_history_that_gives_arrow_a_list_does_not_bring_pandas() -> None:
    arrow = "import pyarrow as pa\npa.array(['list'])\npa.table({'a': [1]})"
    pytest.importorskip("pandas")
    assert "pandas" in loaded(arrow), "the same without it: this test can fail"
    history = "from albireo.node.history.arrow import leave_pandas_out\nleave_pandas_out()\n"
    assert "pandas" not in loaded(history + arrow)
    assert "pandas" in loaded(f"{history}{arrow}\npa.table({{'a': [1]}}).to_pandas()"), "who wants pandas still gets it"
