"""Zones that nobody knows are refused by whoever is given one."""

import pytest

from albireo.face.web.settings import WebSettings


@pytest.mark.parametrize("zone", ["Europe/Wien", "../passwd", "", "Europe", "a\0b"])
def test_a_zone_that_nobody_knows_is_refused_with_an_example(zone: str) -> None:
    with pytest.raises(ValueError, match=r"is not known: write one such as Europe/Vienna"):
        WebSettings(zone=zone)
