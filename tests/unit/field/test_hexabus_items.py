"""Rows of a Hexabus item table, and settings of its adapter."""

from pathlib import Path

import pytest

from albireo.codec.hexabus.values import HexType
from albireo.field.contract import ConfigurationError
from albireo.field.hexabus.items import HexItem, parse_row
from albireo.field.kinds import Surroundings, create_adapter
from albireo.model.value import ValueType
from albireo.runtime.clock import boot_ns

ROW = {"name": "hall", "device": "lamp_1", "address": "fd00:0::11", "endpoint": "relay", "eid": "1", "type": "bool"}


def test_a_row_is_an_endpoint_of_a_device() -> None:
    found = parse_row({**ROW, "writable": "true", "off_normal": "true", "groups": "lamps hall"}, adapter="house")
    assert isinstance(found, HexItem)
    assert (found.host, found.eid, found.datatype, found.endpoint) == ("fd00::11", 1, HexType.BOOL, "relay")
    assert found.groups == {"lamps", "hall"}
    assert found.item.is_writable and found.item.alarm is not None and found.item.value_type is ValueType.BOOL


@pytest.mark.parametrize(
    ("cells", "column"),
    [
        ({"address": "ff05::205"}, "address"),
        ({"address": "10.0.0.1"}, "address"),
        ({"address": "fe80::1%eth0"}, "address"),
        ({"address": ""}, "address"),
        ({"eid": "0"}, "eid"),
        ({"eid": "4294967296"}, "eid"),
        ({"eid": "one"}, "eid"),
        ({"type": "bytes65"}, "type"),
        ({"type": ""}, "type"),
        ({"device": ""}, "device"),
        ({"name": "a b"}, "name"),
        ({"hi": "3"}, "hi"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_mistakes_are_named_with_a_remedy(cells: dict[str, str], column: str) -> None:
    found = parse_row({**ROW, **cells})
    assert isinstance(found, list) and column in {one.column for one in found} and all(one.remedy for one in found)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"items": [ROW, {**ROW, "name": "other"}]}, "endpoint 1 of lamp_1 stands there twice"),
        ({"items": [ROW, {**ROW, "name": "b", "eid": "2", "address": "fd00::12"}]}, "lamp_1 has two addresses"),
        ({"items": [ROW, {**ROW, "name": "b", "eid": "2", "device": "lamp_2"}]}, "the address of lamp_1, lamp_2"),
        (
            {
                "items": [
                    {**ROW, "name": f"n{one}", "device": f"d{one}", "address": f"fd00::1:{one:x}"}
                    for one in range(1001)
                ]
            },
            "1,001 devices; a network has 1,000 at most",
        ),
        ({"master": "fd00::1"}, ""),
        ({"master": "10.0.0.1/24"}, "write an IPv6 address and its prefix"),
        ({"master": "ff05::1/64"}, "no address of a host"),
        ({"interface": ""}, "interface"),
        ({"device_id": 1}, "device_id"),
    ],
)
def test_settings_and_tables_that_can_not_work_are_refused(more: dict[str, object], said: str, tmp_path: Path) -> None:
    arguments = {"name": "house", "kind": "hexabus", "items": [ROW], **more}
    if not said:
        assert len(create_adapter(arguments, Surroundings(tmp_path, boot_ns)).items) == 1
        return
    with pytest.raises(ConfigurationError, match=said):
        create_adapter(arguments, Surroundings(tmp_path, boot_ns))
