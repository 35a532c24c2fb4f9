"""Item tables as spreadsheets write them, read from files: taken as they are meant, or refused with line and remedy."""

from pathlib import Path

import pytest

from albireo.cli.topology_file import load_again
from albireo.codec.topology.mistakes import Mistake
from albireo.codec.topology.topology import LoadedTopology

TOPOLOGY = """cluster = "6f1c2f7e-7e6a-4a0e-9d39-3f0d5d0f3a11"
[[node]]
id = "root"
  [[node.adapter]]
  name = "p1"
  kind = "modbus"
  url = "tcp://127.0.0.1:502"
  items = "p1.csv"
"""
FAN = {"name": "fan", "kind": "coil", "address": "3"}


def load(directory: Path, table: str | bytes) -> LoadedTopology | list[Mistake]:
    (directory / "topology.toml").write_text(TOPOLOGY)
    (directory / "p1.csv").write_bytes(table if isinstance(table, bytes) else table.encode())
    return load_again(directory / "topology.toml")


@pytest.mark.parametrize(
    ("table", "more"),
    [
        ("name,kind,address\nfan,coil,3\n", {}),
        ("\ufeffname,kind,address\nfan,coil,3\n", {}),
        ('\ufeff"name","kind","address"\r\n"fan","coil","3"\r\n', {}),
        ("name;kind;address\r\nfan;coil;3\r\n", {}),
        ("name\tkind\taddress\nfan\tcoil\t3\n", {}),
        ("name,kind,address\rfan,coil,3\r", {}),
        ("name,kind,address\nfan,coil,3", {}),
        ("name,kind,address,,,\nfan,coil,3,,,\n", {}),
        ("name,kind,address\nfan,coil,3,,,,\n", {}),
        ("name,kind,address\nfan,coil,3\n,,\n,,\n\n\n", {}),
        ("\n\n,,\nname,kind,address\n,,\nfan,coil,3\n", {}),
        (" name , kind , address \n fan , coil , 3 \n", {}),
        ("name,kind,address\n\u00a0fan\u00a0,coil\u00a0,\u00a03\n", {}),
        ("name,kind,address,hi,lo,unit\nfan,coil,3\n", {}),
        ("name;kind;address;description\nfan;coil;3;a, b, c, d, e\n", {"description": "a, b, c, d, e"}),
        ('name,kind,address,description\nfan,coil,3,"one\r\ntwo"\n', {"description": "one\r\ntwo"}),
        ('name,kind,address,description\nfan,coil,3,"the ""left"" one"\n', {"description": 'the "left" one'}),
        ('name,kind,address,description\nfan,coil,3,pipe of 12"\n', {"description": 'pipe of 12"'}),
        ("name,kind,address,description\nfan,coil,3,Lüfter – 20\u00a0°C\n", {"description": "Lüfter – 20\u00a0°C"}),
        ("name,kind,address,description\nfan,coil,3,=1+2\n", {"description": "=1+2"}),
        ("name,kind,address,writable\nfan,coil,3,TRUE\n", {"writable": "TRUE"}),
        ("name,kind,address,writable\nfan,coil,3,No\n", {"writable": "No"}),
    ],
)
def test_a_table_is_read_as_it_is_meant(tmp_path: Path, table: str, more: dict[str, str]) -> None:
    loaded = load(tmp_path, table)
    assert isinstance(loaded, LoadedTopology), loaded
    assert loaded.warnings == ()
    assert loaded.arguments["root"][0]["items"] == [{**FAN, **more}]


HEAD = "name,kind,address,hi,writable,scale\n"


@pytest.mark.parametrize(
    ("table", "column", "said"),
    [
        ("name;kind;address;scale\nt;input;3;0,1\n", "scale", "'0,1'"),
        ("name;kind;address;hi\nt;input;3;70,5\n", "hi", "'70,5'"),
        (HEAD + 't,input,3,"1,000",,\n', "hi", "'1,000'"),
        (HEAD + "t,input,3,1\u00a0000,,\n", "hi", "1\\xa0000"),
        (HEAD + "t,input,3,1'000,,\n", "hi", "1'000"),
        (HEAD + "t,input,3,50%,,\n", "hi", "'50%'"),
        (HEAD + "t,input,3,50 ppm,,\n", "hi", "'50 ppm'"),
        (HEAD + "t,input,3,\u22125,,\n", "hi", "\u22125"),
        (HEAD + "t,input,3,(5),,\n", "hi", "'(5)'"),
        (HEAD + "t,input,3,01. Feb,,\n", "hi", "'01. Feb'"),
        (HEAD + "t,input,3,#REF!,,\n", "hi", "'#REF!'"),
        (HEAD + "t,input,3,1e999,,\n", "hi", "'1e999'"),
        (HEAD + "t,holding,1E+05,,,\n", "address", "'1E+05'"),
        (HEAD + "t,holding,1E+03,,,\n", "address", "'1E+03'"),
        (HEAD + "t,holding,17.0,,,\n", "address", "'17.0'"),
        (HEAD + "t,holding,'3,,,\n", "address", "'3"),
        (HEAD + "t,coil,3,,WAHR,\n", "writable", "'WAHR'"),
        (HEAD + "t,coil,3,,VRAI,\n", "writable", "'VRAI'"),
        (HEAD + "1-Mar,coil,3,,,\n", "name", "'1-Mar'"),
        (HEAD + "Mar 01,coil,3,,,\n", "name", "'Mar 01'"),
        (HEAD + "1E+05,coil,3,,,\n", "name", "'1E+05'"),
        (HEAD + "\u201cfan\u201d,coil,3,,,\n", "name", "\u201cfan\u201d"),
        (HEAD + "fan\u00a01,coil,3,,,\n", "name", "fan\\xa01"),
        (HEAD + "fan\u200b,coil,3,,,\n", "name", "fan\\u200b"),
        (HEAD + "t,Holding Register,3,,,\n", "kind", "'Holding Register'"),
        (HEAD + "t,input,3,,,0,1\n", "", "7 cells"),
        (HEAD + "t,input,3,,,1,a note\n", "", "7 cells"),
    ],
)
def test_what_a_spreadsheet_made_of_a_cell_is_refused_and_never_guessed(
    tmp_path: Path, table: str, column: str, said: str
) -> None:
    mistakes = load(tmp_path, table)
    assert isinstance(mistakes, list), mistakes
    (mistake,) = mistakes
    assert (mistake.file, mistake.line, mistake.key_path) == ("p1.csv", 2, column)
    assert said in mistake.text and mistake.remedy


@pytest.mark.parametrize("encoding", ["utf-16", "cp1252", "mac_roman"])
def test_a_table_in_another_encoding_is_refused_by_its_name(tmp_path: Path, encoding: str) -> None:
    mistakes = load(tmp_path, "name,kind,address,unit\nt,input,3,°C\n".encode(encoding))
    assert isinstance(mistakes, list)
    assert mistakes[0].text.startswith("p1.csv is not UTF-8 (byte ") and mistakes[0].remedy


def test_a_line_is_the_one_that_an_editor_shows_though_cells_have_lines_of_their_own(tmp_path: Path) -> None:
    table = 'name,kind,address,description\r\n# a comment\r\nfan,coil,3,"one\r\ntwo"\r\n\r\nv,coil,x,"a\r\nb"\r\n'
    mistakes = load(tmp_path, table)
    assert isinstance(mistakes, list)
    assert [(one.line, one.key_path) for one in mistakes] == [(6, "address")]


@pytest.mark.parametrize(
    "row", ['"12" pipe,coil,4', '"fan,coil,4\nw,coil,5'], ids=["a quote within a cell", "a quote that never ends"]
)
def test_a_wrong_quote_is_told_with_the_last_line_before_it(tmp_path: Path, row: str) -> None:
    mistakes = load(tmp_path, f"name,kind,address\nfan,coil,3\n\n{row}\nv,coil,6\n")
    assert isinstance(mistakes, list)
    (mistake,) = mistakes
    assert (mistake.file, mistake.line) == ("p1.csv", 2) and "behind this line for a quote" in mistake.remedy


def test_a_table_with_nothing_but_its_header_is_refused(tmp_path: Path) -> None:
    """The adapter can't start without items; a check that called it good would be believed."""
    mistakes = load(tmp_path, "name,kind,address\n# the rest comes later\n")
    assert isinstance(mistakes, list)
    assert [(one.line, one.text) for one in mistakes] == [(1, "the table has no rows")]
