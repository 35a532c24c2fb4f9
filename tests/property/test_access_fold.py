"""The access fold against a dumb oracle: replay and snapshots give what lived, whatever was put on record."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albireo.codec.errors import DecodeError
from albireo.codec.record import AccessGranted, AccessRevoked
from albireo.machine.fold.people.access import AccessFold
from albireo.model.access import ROLE_WORDS, AccessRole, highest, role_from

NODES = ("", "root", "root/north", "root/north/x", "rooted")
names = st.sampled_from(["a", "b", "c"])
words = st.sampled_from([*ROLE_WORDS, "of a later version"])
nodes = st.sampled_from(NODES)
records = st.lists(
    st.one_of(
        st.builds(AccessGranted, principal=names, role=words, node=nodes),
        st.builds(AccessRevoked, principal=names, node=nodes),
    ),
    max_size=30,
)


def oracle(told: list[AccessGranted | AccessRevoked], name: str, node: str) -> AccessRole:
    """The role after all of it, from a plain table of (name, node)."""
    table: dict[str, str] = {}
    for one in told:
        if one.principal != name:
            continue
        if isinstance(one, AccessGranted):
            table[one.node] = one.role
        elif one.node:
            table.pop(one.node, None)
        else:
            table.clear()
    above = ["", *("/".join(node.split("/")[:end]) for end in range(1, node.count("/") + 2))]
    found = [role_from(table[one]) or AccessRole.VIEW for one in above if one in table]
    return max(found, default=AccessRole.VIEW)


@given(records, st.integers(0, 30))
def test_what_lives_what_is_replayed_and_what_is_restored_are_one(
    told: list[AccessGranted | AccessRevoked], cut: int
) -> None:
    live, restored = AccessFold(), AccessFold()
    for number, one in enumerate(told):
        if number == cut:
            restored = AccessFold.restore(restored.snapshot())
        live.fold(one)
        restored.fold(one)
    assert restored.snapshot() == live.snapshot() == AccessFold.restore(live.snapshot()).snapshot()
    for name in "abc":
        grants = live.grants_of(name)
        assert (grants is None) is all(one.principal != name for one in told)
        for node in NODES[1:]:
            assert highest(grants or (), node) is oracle(told, name, node)


@given(st.binary(max_size=40))
def test_a_damaged_section_is_refused_and_nothing_else_happens(section: bytes) -> None:
    try:
        AccessFold.restore(section)
    except DecodeError:
        pass


@pytest.mark.parametrize("section", [b"\x01", msgspec.msgpack.encode([[["a", [["view"]]]]])])
def test_a_malformed_section_is_refused(section: bytes) -> None:
    with pytest.raises(DecodeError, match="snapshot"):
        AccessFold.restore(section)
