"""A process of a node keeps the memory that it will need again, and a program some of it."""

import platform
import subprocess
import sys

import pytest

CYCLES = """
import resource, sys
from concurrent.futures import ThreadPoolExecutor
from albireo.runtime.actor.tuning import show_large_block, tune_process
if sys.argv[1] == "tuned":
    tune_process()
if sys.argv[1] == "shown":
    show_large_block()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def cycle():
    kept = [b"x" * (1 << 20) for _ in range(int(sys.argv[3]))]
    del kept
with ThreadPoolExecutor(1) as thread:
    for number in range(11):
        if number == 1:
            begun = faults()
        thread.submit(cycle).result() if sys.argv[2] == "thread" else cycle()
print(faults() - begun)
"""


def faults(how: str, where: str, blocks: int) -> int:
    command = [sys.executable, "-c", CYCLES, how, where, str(blocks)]
    return int(subprocess.run(command, capture_output=True, check=True).stdout)


@pytest.mark.parametrize("where", ["main", "thread"])
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_what_was_freed_is_used_again_and_not_taken_from_the_kernel_anew(where: str) -> None:
    pages = 10 * 96 * 256
    assert faults("tuned", where, 96) < pages // 100
    assert faults("plain", where, 96) > pages // 20, "the same without it: this test can fail"


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the others have their own ways")
def test_a_program_that_has_shown_a_large_block_gets_its_messages_back() -> None:
    pages = 10 * 6 * 256
    assert faults("shown", "main", 6) < pages // 100
    assert faults("plain", "main", 6) > pages // 2, "the same without it: this test can fail"
