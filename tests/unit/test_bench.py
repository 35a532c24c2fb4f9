"""Benchmarks: what they make of what they measured. None of them is run here."""

from bench import Case
from bench.pipeline import parts


def test_a_part_that_took_no_tick_of_cpu_time_has_a_case_without_a_ratio() -> None:
    """CPU time is counted in ticks of 10 ms, so that a short part may have none."""
    times = {"parts": {"jobs": 3.0, "report": 0.004}, "cpu": {"jobs": 1.5, "report": 0.0}}
    assert parts("demo's run", times) == [
        Case("demo's run: jobs, beside its CPU time", "s", 3.0, 1.5, 2.0),
        Case("demo's run: report, beside its CPU time", "s", 0.004),
    ]
