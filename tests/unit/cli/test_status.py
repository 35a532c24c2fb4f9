"""`albireo status`: what it prints of a node's answer."""

import pytest

from albireo.cli.node.status import _show_producers, device_text


def test_it_shows_which_run_has_a_name_and_which_had_it_before(capsys: pytest.CaptureFixture[str]) -> None:
    """Two programs that share a name by mistake are told apart so."""
    earlier = [{"life": 3, "run": 11}, {"life": 5, "run": 22}]
    known = {"name": "meter", "life": 7, "run": 33, "since_ns": 1_800_000_000 * 10**9, "last": 4, "earlier": earlier}
    first = {"name": "plc", "life": 1, "run": 44, "since_ns": 0, "last": 9, "earlier": []}
    _show_producers({"producers": [known, first], "superseded": 2})
    head, meter, plc, told = capsys.readouterr().out.splitlines()
    assert head.split("\t") == ["producer", "life", "run", "since", "batches", "runs before"]
    assert meter.split("\t") == ["meter", "7", "33", "2027-01-15 08:00:00.000", "4", "22 11"]
    assert plc.split("\t") == ["plc", "1", "44", "-", "9", "-"]
    assert "2 times" in told and "a name of its own" in told


def test_a_node_of_an_earlier_version_says_nothing_of_producers(capsys: pytest.CaptureFixture[str]) -> None:
    _show_producers({})
    assert len(capsys.readouterr().out.splitlines()) <= 1


@pytest.mark.parametrize(
    ("heard", "device", "text"),
    [
        (True, True, "answers"),
        (True, False, "LOST"),
        (True, None, "not tried yet"),
        (False, None, "adapter NOT HEARD"),
        (False, True, "answers"),
    ],
)
def test_a_lost_device_is_told_although_its_adapter_is_heard(heard: bool, device: bool | None, text: str) -> None:
    """The last row: an adapter of a member that stands by, which is asked for its device only."""
    assert device_text({"connected": heard and device is not False, "heard": heard, "device": device}) == text
