"""The shape of item tables as spreadsheets write them: no row is lost, and no meaning, without a word."""

import pytest

from albireo.codec.topology.item_table import read_rows
from albireo.codec.topology.mistakes import Findings


def table(text: str) -> tuple[list[str], list[str]]:
    """Names of the rows, with their lines, and what is said of the table."""
    found = Findings("plc.csv")
    rows = read_rows(text, found)
    return [f"{row.line} {row.name}" for row in rows], [str(one) for one in found.mistakes()]


@pytest.mark.parametrize(
    "first", ["sep=;", "SEP=;", '"sep=;"', "sep=;;;", "sep = ;", "\ufeffsep=;", "\nsep=;", "# a table\nsep=;"]
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_the_line_by_which_excel_tells_the_separator_is_read(first: str, end: str) -> None:
    text = f"{first}\nname;kind;description\na;holding;left, right, up, down, in, out\n".replace("\n", end)
    assert table(text) == ([f"{first.count(chr(10)) + 3} a"], [])


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_that_is_told_counts(separator: str) -> None:
    assert table(f"sep={separator}\nname{separator}kind\na{separator}coil\n") == (["3 a"], [])


def test_a_tab_may_be_told_as_people_write_it() -> None:
    assert table("sep=\\t\nname\tkind\na\tcoil\n") == (["3 a"], [])


@pytest.mark.parametrize("first", ["sep=", "sep=^", "sep=:", "sep=tab"])
def test_a_separator_that_is_none_is_told_by_its_name(first: str) -> None:
    rows, (said,) = table(f"{first}\nname;kind\na;coil\n")
    assert not rows and "plc.csv:1" in said and first in said


def test_an_item_may_be_called_as_the_line_of_excel_begins() -> None:
    assert table("name,kind\nsep,coil\n") == (["2 sep"], [])


@pytest.mark.parametrize("cell", ["#2 fan", '"#2 fan, left"', " #2", '"# a\n# b"', "#"])
def test_a_row_whose_first_cell_begins_with_a_hash_is_an_item(cell: str) -> None:
    rows, said = table(f"description,name,kind\n{cell},fan_2,coil\nfan 3,fan_3,coil\n")
    assert [row.partition(" ")[2] for row in rows] == ["fan_2", "fan_3"] and not said


def test_a_first_column_may_be_called_by_a_hash() -> None:
    assert table("#;name;kind\n1;a;coil\n#2;b;coil\n") == (["2 a", "3 b"], [])


@pytest.mark.parametrize(
    "line", ["# fans", "#fan_9,coil", "# the fans, left and right", '# 19" rack', '#,"', "  # far in", "#,,,"]
)
@pytest.mark.parametrize("header", ["name,kind,description", "description,name,kind"])
def test_a_comment_line_is_no_row_and_swallows_none(line: str, header: str) -> None:
    cells = "a,coil,x" if header.startswith("name") else "x,a,coil"
    if header.startswith("desc") and line == "#fan_9,coil":
        return  # It is a row there: what is none in one's eyes is told when the row is judged.
    assert table(f"{line}\n{header}\n{line}\n{cells}\n{line}\n") == (["4 a"], [])


def test_a_quoted_name_that_begins_with_a_hash_is_no_comment() -> None:
    assert table('name,kind\n"#1",coil\n') == (["2 #1"], [])


@pytest.mark.parametrize("separator", [";", "\t"])
def test_a_number_with_a_point_for_thousands_is_doubted(separator: str) -> None:
    text = "name;hi;lo;description\na;1.000;;1.000\nb;12.500;-1.250;\nc;0.125;2.5;\nd;1.0000;1000;\n"
    rows, said = table(text.replace(";", separator))
    assert len(rows) == 4
    assert said == [
        "plc.csv:2: hi: warning: a: 1.000 is read as 1: its point is that of a decimal number (and 1 more rows). "
        "Right if meant; write a thousand as 1000.",
        "plc.csv:3: lo: warning: b: -1.250 is read as -1.25: its point is that of a decimal number. "
        "Right if meant; write a thousand as 1000.",
    ]


def test_a_table_with_commas_has_decimal_points() -> None:
    assert table("name,hi\na,1.000\n") == (["2 a"], [])
