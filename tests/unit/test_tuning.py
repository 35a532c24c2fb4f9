"""A process of a node keeps the memory that it will need again."""

import platform
import subprocess
import sys

import pytest

CYCLES = """
import resource, sys
from concurrent.futures import ThreadPoolExecutor
from albireo.runtime.tuning import tune_process
if sys.argv[1] == "tuned":
    tune_process()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def cycle():
    kept = [b"x" * (1 << 20) for _ in range(96)]
    del kept
with ThreadPoolExecutor(1) as thread:
    for number in range(11):
        if number == 1:
            begun = faults()
        thread.submit(cycle).result() if sys.argv[2] == "thread" else cycle()
print(faults() - begun)
"""


@pytest.mark.parametrize("where", ["main", "thread"])
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_what_was_freed_is_used_again_and_not_taken_from_the_kernel_anew(where: str) -> None:
    def faults(how: str) -> int:
        return int(subprocess.run([sys.executable, "-c", CYCLES, how, where], capture_output=True, check=True).stdout)

    pages = 10 * 96 * 256
    assert faults("tuned") < pages // 100
    assert faults("plain") > pages // 20, "the same without it: this test can fail"
