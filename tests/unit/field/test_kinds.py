"""Adapters of one process share the types of their module, whoever offers their kind."""

import subprocess
import sys
from pathlib import Path

from albireo.field import ENTRY_POINTS

MODULE = """
import threading
import msgspec

COUNT, THREADS = 200, 4
TOGETHER = threading.Barrier(THREADS)
for number in range(COUNT):
    exec(f'''
class Outer{number}(msgspec.Struct):
    inner: "list[Inner{number}]" = []

class Inner{number}(msgspec.Struct):
    outer: "Outer{number} | None" = None
''')

def create(arguments, surroundings):
    for number in range(COUNT):
        TOGETHER.wait()
        msgspec.convert({"inner": [{"outer": {}}]}, type=globals()[f"Outer{number}"])
"""
PROGRAM = """
import sys, threading
from pathlib import Path
from albireo.field.kinds import Surroundings, create_adapter
from albireo.runtime.clock import boot_ns

sys.setswitchinterval(1e-6)
surroundings = Surroundings(Path(), boot_ns)
threads = [threading.Thread(target=create_adapter, args=("offered", {}, surroundings)) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("all made")
"""


def test_adapters_that_read_their_arguments_at_once_end_no_process(tmp_path: Path) -> None:
    """Two threads that use a type of msgspec (0.22) for the first time at once do: the process dies each time here. A
    node of two Modbus adapters in threads died so, now and then, as it started."""
    offering = tmp_path / "offered-1.0.dist-info"
    offering.mkdir()
    (offering / "METADATA").write_text("Metadata-Version: 2.1\nName: offered\nVersion: 1.0\n")
    (offering / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\noffered = offered_adapter:create\n")
    (tmp_path / "offered_adapter.py").write_text(MODULE)
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{PROGRAM}"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, text=True)
    assert (ended.returncode, ended.stdout) == (0, "all made\n"), ended.stderr
