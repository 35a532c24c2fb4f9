"""Targets: which lines lead to what a program names."""

from pathlib import Path

import pytest

from albireo.client import TargetRefused
from albireo.client.target import target_of
from albireo.model.topology import MemberEndpoints, NodeConfig
from albireo.runtime.link.dialing import ANY_PLACE
from albireo.runtime.link.keys import Keys, introduce
from albireo.runtime.link.lines import LineTo

A, B = "tcp://127.0.0.1:7710", "tcp://127.0.0.1:7720"


def test_endpoints_with_names_without_and_of_a_topology(tmp_path: Path) -> None:
    keys = Keys.new(tmp_path, "anna@desk")
    assert target_of(A, None).lines == (LineTo(A),)
    assert target_of(A, keys).lines == (LineTo(A, ANY_PLACE),)
    assert target_of(f"{A}#root[primary], {B}", tmp_path).lines == (LineTo(A, "root[primary]"), LineTo(B, ANY_PLACE))
    assert target_of([A, B], None, is_pinned=True).lines == (LineTo(A),)
    ends = [MemberEndpoints(client=one, peer=("tcp://127.0.0.1:1",)) for one in (A, B)]
    pair = NodeConfig(id="root", primary=ends[0], backup=ends[1])
    assert target_of(pair, None).lines == (LineTo(A, "root[primary]"), LineTo(B, "root[backup]"))
    assert target_of(NodeConfig(id="root/north", endpoint=A), None).lines == (LineTo(A, "root/north"),)
    with pytest.raises(TargetRefused, match="no endpoint"):
        target_of(NodeConfig(id="root"), None)


def test_directories_of_a_node_and_of_both_members(tmp_path: Path) -> None:
    assert target_of(tmp_path, None).lines == (LineTo(str(tmp_path)),)
    for member in ("primary", "backup"):
        (tmp_path / member / "log").mkdir(parents=True)
    assert target_of(str(tmp_path), None).lines == tuple(LineTo(str(tmp_path / one)) for one in ("primary", "backup"))
    with pytest.raises(TargetRefused) as raised:
        target_of(A, tmp_path / "primary")
    assert "chmod 700" in raised.value.remedy and str(raised.value).count("chmod 700") == 1


def test_a_door_without_a_name_is_tried_with_each_trusted_key_but_witnesses(tmp_path: Path) -> None:
    names = ("anna@desk", "root/north", "witness:w1", "root[primary]")
    keys = {name: Keys.new(tmp_path / str(number), name) for number, name in enumerate(names)}
    introduce(*keys.values())
    wanted = (keys["root[primary]"].public, keys["root/north"].public)
    assert keys["anna@desk"].keys_of_places() == wanted
