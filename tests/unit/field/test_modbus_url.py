"""Address of a Modbus device: nothing in it is left out silently."""

import pytest

from albireo.field.contract import ConfigurationError
from albireo.field.modbus.wire import Address, parse_url


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("tcp://10.0.2.5", Address("10.0.2.5", 502)),
        ("tcp://plc-1.plant:1502/", Address("plc-1.plant", 1502)),
        ("tcp://[fe80::1]:502", Address("fe80::1", 502)),
    ],
)
def test_an_address_has_a_host_and_may_have_a_port(url: str, address: Address) -> None:
    assert parse_url(url) == address


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("tcp://10.0.2.5:0", "port 0"),
        ("tcp://me:secret@10.0.2.5:502", "a user"),
        ("tcp://@10.0.2.5:502", "a user"),
        ("tcp://10.0.2.5:502?unit=3", "a query"),
        ("tcp://10.0.2.5:502?", "a query"),
        ("tcp://10.0.2.5:502#3", "a fragment"),
        ("tcp://10.0.2.5:502/3", "a path"),
        ("tcp://10.0.2.5:70000", "range"),
        ("tcp://[fe80::1:502", "IPv6"),
        ("udp://10.0.2.5:502", "udp"),
        ("tcp://:502", "tcp://HOST:PORT"),
        ("10.0.2.5:502", "tcp://HOST:PORT"),
    ],
)
def test_what_an_address_must_not_have_is_named(url: str, named: str) -> None:
    with pytest.raises(ConfigurationError, match="tcp://HOST:PORT") as refused:
        parse_url(url)
    assert named in str(refused.value)
