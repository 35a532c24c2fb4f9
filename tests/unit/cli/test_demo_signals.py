"""Ctrl-C ends the demo and leaves the report; whoever is in a hurry goes without."""

import os
import signal

from albireo.cli.demo.signals import Signals


def test_the_first_ctrl_c_ends_what_is_under_way_and_the_second_is_urgent() -> None:
    with Signals() as signals:
        with signals.raising():
            os.kill(os.getpid(), signal.SIGINT)
            raise AssertionError("it goes on after the signal")
        assert (signals.have_come, signals.are_urgent) == (True, False)
        with signals.raising():
            os.kill(os.getpid(), signal.SIGINT)
            raise AssertionError("it goes on after the signal")
        assert signals.are_urgent


def test_sigterm_is_urgent_at_once() -> None:
    with Signals() as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        assert (signals.have_come, signals.are_urgent) == (True, True)
