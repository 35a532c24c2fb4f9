"""A process of a node keeps the memory that it will need again."""

import platform
import subprocess
import sys

import pytest

CYCLES = """
import resource, sys
from albireo.runtime.tuning import tune_process
if sys.argv[1] == "tuned":
    tune_process()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for cycle in range(11):
    if cycle == 1:
        begun = faults()
    kept = [b"x" * (1 << 20) for _ in range(16)]
    del kept
print(faults() - begun)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_what_was_freed_is_used_again_and_not_taken_from_the_kernel_anew() -> None:
    def faults(how: str) -> int:
        return int(subprocess.run([sys.executable, "-c", CYCLES, how], capture_output=True, check=True).stdout)

    pages = 10 * 16 * 256
    assert faults("tuned") < pages // 10
    assert faults("plain") > pages // 2, "the same without it: this test can fail"
