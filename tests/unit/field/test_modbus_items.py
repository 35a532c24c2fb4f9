"""Item tables of Modbus: what a row may say, and what is said of one that is wrong."""

import pytest

from albireo.field.contract import ConfigurationError
from albireo.field.modbus.adapter import parse_table
from albireo.field.modbus.items import COLUMNS, ModbusItem, RegisterType, TableKind, numbering_doubt, parse_row
from albireo.model.item import DataItem
from albireo.model.item_states import states_text
from albireo.model.value import ValueType

ROW = {"name": "co", "kind": "holding", "address": "0", "type": "float32"}


def declared(**cells: str) -> DataItem:
    found = parse_row({**ROW, **cells})
    assert isinstance(found, ModbusItem), found
    return found.item


def test_a_full_row() -> None:
    row = {
        **ROW, "address": "0x10", "word_order": "CDAB", "unit": "ppm", "dead_band": "0.5", "hi_hi": "90", "hi": "70",
        "hysteresis": "2", "on_delay_ms": "500", "stale_s": "30", "severity": "800", "latched": "yes",
        "writable": "true", "minimum": "0", "maximum": "100", "description": "CO, portal", "device_id": "3",
    }  # fmt: skip
    found = parse_row(row, adapter="p1")
    assert isinstance(found, ModbusItem)
    assert (found.kind, found.address, found.words, found.end) == (TableKind.HOLDING, 16, 2, 18)
    assert (found.is_low_word_first, found.is_byte_swapped, found.device_id) == (True, False, 3)
    assert found.item.adapter == "p1"
    assert found.item.alarm is not None
    assert (found.item.alarm.hi, found.item.alarm.is_latched, found.item.alarm.stale_s) == (70, True, 30)
    assert (found.item.minimum, found.item.maximum, found.item.is_writable) == (0, 100, True)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({"type": "int16"}, ValueType.INT64),
        ({"type": "int16", "scale": "0.1"}, ValueType.FLOAT64),
        ({"type": "int16", "scale": "1", "offset": "0"}, ValueType.INT64),
        ({"type": "float64"}, ValueType.FLOAT64),
        ({"type": "bool", "bit": "3"}, ValueType.BOOL),
        ({"type": "string", "length": "9"}, ValueType.STRING),
        ({"type": "", "kind": "coil"}, ValueType.BOOL),
        ({"type": "", "kind": "input"}, ValueType.INT64),
    ],
)
def test_the_type_of_the_value_follows_from_register_and_scale(cells: dict[str, str], expected: ValueType) -> None:
    assert declared(**cells).value_type is expected


def test_a_string_takes_a_register_for_two_characters() -> None:
    found = parse_row({**ROW, "type": "string", "length": "9"})
    assert isinstance(found, ModbusItem)
    assert found.words == 5


@pytest.mark.parametrize(("cell", "control"), [("", "direct"), ("direct", "direct"), ("Select", "select")])
def test_an_item_takes_orders_directly_unless_it_asks_to_be_selected(cell: str, control: str) -> None:
    assert declared(writable="true", control=cell).control.value == control


def test_no_alarm_where_no_limit_is_given() -> None:
    assert declared(severity="900", hysteresis="1").alarm is None


@pytest.mark.parametrize(
    ("cells", "column"),
    [
        ({"name": "1st"}, "name"), ({"name": "a/b"}, "name"), ({"name": ""}, "name"), ({"kind": "register"}, "kind"),
        ({"kind": ""}, "kind"), ({"address": ""}, "address"), ({"address": "70000"}, "address"),
        ({"address": "65535"}, "address"), ({"type": "real"}, "type"), ({"kind": "coil"}, "type"),
        ({"word_order": "middle"}, "word_order"), ({"scale": "0"}, "scale"), ({"scale": "0,1"}, "scale"),
        ({"type": "bool", "scale": "2"}, "scale"), ({"dead_band": "-1"}, "dead_band"),
        ({"dead_band": "nan"}, "dead_band"),
        ({"bit": "3"}, "bit"), ({"type": "bool", "bit": "16"}, "bit"), ({"length": "3"}, "length"),
        ({"type": "string"}, "length"), ({"type": "string", "length": "251"}, "length"),
        ({"kind": "input", "writable": "true"}, "writable"), ({"writable": "maybe"}, "writable"),
        ({"minimum": "5", "maximum": "1"}, "minimum"), ({"hi": "5", "lo": "9"}, "hi"),
        ({"off_normal": "true"}, "off_normal"), ({"type": "string", "length": "2", "hi": "5"}, "hi"),
        ({"severity": "2000"}, "severity"), ({"device_id": "256"}, "device_id"), ({"adress": "5"}, "adress"),
        ({"stale_s": "0"}, "hi"), ({"control": "select"}, "control"),
        ({"writable": "true", "control": "sbo"}, "control"), ({"states": "0=off"}, "states"),
        ({"type": "int16", "scale": "0.1", "states": "0=off"}, "states"), ({"kind": "coil", "states": "2=a"}, "states"),
        ({"type": "uint16", "states": "65536=off"}, "states"), ({"type": "uint16", "states": "-1=off"}, "states"),
        ({"type": "int16", "states": "32768=off"}, "states"), ({"type": "int16", "states": "off"}, "states"),
    ],
)  # fmt: skip
def test_a_mistake_names_its_column_and_a_remedy(cells: dict[str, str], column: str) -> None:
    found = parse_row({**ROW, **cells})
    assert isinstance(found, list)
    assert column in [one.column for one in found]
    assert all(one.text and one.remedy for one in found)


@pytest.mark.parametrize(
    ("cells", "states"),
    [
        ({"kind": "coil", "type": "", "states": "false=open;true=closed"}, "0=open;1=closed"),
        ({"type": "bool", "bit": "3", "states": "1=closed"}, "1=closed"),
        ({"type": "uint16", "states": "0=off;65535=local"}, "0=off;65535=local"),
        ({"type": "int16", "states": "-32768=off;32767=on"}, "-32768=off;32767=on"),
        ({"type": "uint64", "states": "9007199254740992=far"}, "9007199254740992=far"),
    ],
)
def test_values_have_words(cells: dict[str, str], states: str) -> None:
    assert states_text(declared(**cells).states) == states


def test_all_mistakes_of_a_row_are_named_at_once() -> None:
    found = parse_row({"name": "", "kind": "holding", "address": "x", "type": "float32", "scale": "y"})
    assert isinstance(found, list)
    assert {one.column for one in found} == {"name", "address", "scale"}


def test_a_table_names_every_wrong_row() -> None:
    rows = [ROW, ROW, {**ROW, "name": "b", "address": "x"}]
    with pytest.raises(ConfigurationError, match=r"row 2: a second item 'co'.*") as caught:
        parse_table(rows, adapter="p1", device_id=1)
    assert "row 3: address is 'x'" in str(caught.value)


def test_a_table_without_rows_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no items"):
        parse_table([], adapter="p1", device_id=1)


def test_rows_without_a_unit_of_their_own_belong_to_the_adapters() -> None:
    table = parse_table([ROW, {**ROW, "name": "b", "device_id": "9"}], adapter="p1", device_id=4)
    assert [one.device_id for one in table] == [4, 9]


def test_every_type_of_register_can_be_named() -> None:
    for one in RegisterType:
        assert isinstance(parse_row({**ROW, "type": one.value, "length": "4" if one == "string" else ""}), ModbusItem)


def test_the_columns_are_those_of_the_manual() -> None:
    assert len(set(COLUMNS)) == len(COLUMNS) == 34


@pytest.mark.parametrize(
    ("cells", "address"),
    [
        ({"address": "0017"}, 17),
        ({"address": "00017"}, 17),
        ({"address": "0000"}, 0),
        ({"kind": "coil", "address": "017"}, 17),
        ({"address": "0x0017"}, 0x17),
    ],
)
def test_zeros_before_an_address_mean_nothing(cells: dict[str, str], address: int) -> None:
    parsed = parse_row({"name": "x", "kind": "holding", **cells})
    assert isinstance(parsed, ModbusItem)
    assert parsed.address == address


@pytest.mark.parametrize(("number", "meant"), [("00017", "16"), ("000017", "16"), ("00001", "0")])
def test_a_coil_with_a_manuals_number_is_refused_and_the_address_named(number: str, meant: str) -> None:
    """Coil 00017 of a manual is protocol address 16; taken as 17 it would switch the neighbour."""
    parsed = parse_row({"name": "x", "kind": "coil", "address": number})
    assert isinstance(parsed, list)
    (mistake,) = parsed
    assert mistake.column == "address"
    assert "manual" in mistake.text
    assert f": {meant} if" in mistake.remedy


@pytest.mark.parametrize(
    "text", ["1_000", "०१", "-1", "1.0", "٣", "%MW5", "4x00001", "40001.3", "9C41h", "D100", "1 000"]
)
def test_only_plain_digits_are_an_address(text: str) -> None:
    assert isinstance(parse_row({"name": "x", "kind": "holding", "address": text}), list)


@pytest.mark.parametrize(
    ("kind", "number"),
    [("holding", "400001"), ("holding", "465536"), ("input", "300001"), ("discrete", "100001"), ("coil", "65536")],
)
def test_a_number_beyond_all_addresses_is_refused_with_what_a_manual_means(kind: str, number: str) -> None:
    parsed = parse_row({"name": "x", "kind": kind, "address": number})
    assert isinstance(parsed, list)
    (mistake,) = parsed
    assert number in mistake.text and "40001 or 400001 is kind holding, address 0" in mistake.remedy


@pytest.mark.parametrize(
    ("kind", "address", "meant"),
    [
        ("holding", "40001", "0"), ("holding", "49999", "9998"), ("holding", "0x9C41", "0"), ("input", "30001", "0"),
        ("discrete", "10001", "0"), ("discrete", "10017", "16"),
        ("holding", "40000", ""), ("holding", "50000", ""), ("holding", "30001", ""), ("holding", "1", ""),
        ("input", "40001", ""), ("coil", "10001", ""), ("input", "0", ""), ("holding", "65535", ""),
    ],
)  # fmt: skip
def test_an_address_that_looks_like_a_manuals_number_is_taken_as_it_stands_and_doubted(
    kind: str, address: str, meant: str
) -> None:
    """One beside the register that was meant is the oldest mistake there is; and devices have such addresses too."""
    parsed = parse_row({"name": "x", "kind": kind, "address": address})
    assert isinstance(parsed, ModbusItem)
    assert parsed.address == int(address, 0)
    doubt = numbering_doubt(parsed)
    assert (doubt is not None) == bool(meant)
    assert doubt is None or f", write {meant};" in doubt.remedy


@pytest.mark.parametrize(("type_name", "last"), [("uint16", 65535), ("float32", 65534), ("float64", 65532)])
def test_the_last_register_is_65535(type_name: str, last: int) -> None:
    assert isinstance(parse_row({**ROW, "type": type_name, "address": str(last)}), ModbusItem)
    assert isinstance(parse_row({**ROW, "type": type_name, "address": str(last + 1)}), list)


def test_a_row_says_under_which_name_its_item_was_known() -> None:
    item = parse_row({**ROW, "was": "old"})
    assert isinstance(item, ModbusItem)
    assert item.item.was == "old"


@pytest.mark.parametrize(
    "column", ["scale", "offset", "dead_band", "hi", "minimum", "stale_s", "hysteresis", "address"]
)
@pytest.mark.parametrize("cell", ["1_5", "٤٢", "４２", "9" * 400, "nan", "inf", "1e999", "1,5", "0x1.8p3", "0b1"])
def test_what_is_no_number_in_a_cell_is_named_in_a_line(column: str, cell: str) -> None:
    found = parse_row({**ROW, "type": "int16", column: cell})
    assert isinstance(found, list)
    (mistake,) = found
    assert mistake.column == column and len(mistake.text) < 100 and mistake.remedy


@pytest.mark.parametrize(("cell", "number"), [("+1.5", 1.5), ("1e2", 100), (" .5 ", 0.5), ("5.", 5), ("007", 7)])
def test_a_number_in_a_cell_is_taken_by_rule(cell: str, number: float) -> None:
    alarm = declared(hi=cell).alarm
    assert alarm is not None and alarm.hi == number
