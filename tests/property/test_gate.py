"""The gate against a dumb oracle, what its door takes for a request, and what its orders make of a value."""

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from albireo.field.modbus.gate.requests import (
    HEADER_BYTES,
    NotServed,
    ReadRequest,
    WriteRequest,
    decode_header,
    decode_request,
    encode_data,
    encode_written,
    framed,
)
from albireo.field.modbus.items import WORD_ORDERS, ModbusItem, parse_row
from albireo.field.modbus.mailbox import value_of, words_of
from albireo.machine.output.gate import (
    Apply,
    GateConfig,
    GateState,
    KeepGuard,
    Landed,
    MailboxWritten,
    deadline,
    started,
    step,
)
from albireo.machine.output.mailbox import ORDER_REGISTERS, RAISE_ONLY, MailboxOrder, Result, encode_order
from albireo.model.instant import Instant, TimePassed
from tests.long_form import examples

CONFIG = GateConfig(dead_ns=50, highest={1: 0xFFFF, 3: 1})
BOOT = 7

orders = st.builds(
    MailboxOrder,
    count=st.integers(1, 4),
    epoch=st.integers(1, 4),
    boot=st.sampled_from([BOOT, BOOT, BOOT, BOOT - 1]),
    target=st.sampled_from([1, RAISE_ONLY, 3, 2]),
    value=st.sampled_from([1, 0, 0xFFFF, 0x10000]),
)

noise = st.lists(st.integers(0, 0xFFFF), min_size=ORDER_REGISTERS, max_size=ORDER_REGISTERS).map(tuple)
words = st.one_of(*[orders.map(encode_order)] * 4, noise)
events = st.lists(
    st.builds(MailboxWritten, st.integers(0, 1), words)
    | st.builds(Landed, st.sampled_from([Result.UNKNOWN, Result.DONE, Result.REFUSED, Result.UNREACHED]))
    | st.integers(1, 60),
    min_size=15,
    max_size=40,
).map(lambda drawn: [CONFIG.dead_ns, *drawn])


Told = tuple[int, MailboxWritten | Landed | TimePassed, GateState, list[KeepGuard | Apply]]
"""When, what, and what followed."""


def play(drawn: list[MailboxWritten | Landed | int]) -> list[Told]:
    """Every event with what followed; `Landed` where nothing is under way is left out, a number lets time pass."""
    now = 0
    gate, effects = started(CONFIG, BOOT - 1, 0, Instant(now))
    told: list[Told] = [(now, TimePassed(), gate, effects)]
    for one in drawn:
        event: MailboxWritten | Landed | TimePassed
        if isinstance(one, int):
            due = deadline(gate)
            now = max(now, due) if due is not None and due <= now + one else now + one
            event = TimePassed()
        elif isinstance(one, Landed) and gate.under_way is None:
            continue
        else:
            event = one
        gate, effects = step(CONFIG, gate, event, Instant(now))
        told.append((now, event, gate, effects))
    return told


@given(events)
@settings(max_examples=examples(300))
def test_whatever_comes_the_invariants_hold(drawn: list[MailboxWritten | Landed | int]) -> None:
    kept, applied, quiet_until = 0, 0, CONFIG.dead_ns
    before = None
    for now, event, gate, effects in play(drawn):
        if event == Landed(Result.UNKNOWN):
            quiet_until = now + CONFIG.dead_ns
        for effect in effects:
            match effect:
                case KeepGuard(boot=boot, guard=guard):
                    assert boot == BOOT and guard >= kept, "the guard never falls"
                    kept = guard
                case Apply(order=order):
                    assert before is None or before.under_way is None or gate.under_way is not before.under_way
                    assert order.epoch == kept, "kept before it leaves"
                    assert order.epoch >= applied and order.boot == BOOT
                    assert order.value <= CONFIG.highest[order.target]
                    assert now >= quiet_until, "nothing overtakes what nobody answers for"
                    applied = order.epoch
        assert gate.state.guard == kept
        assert sum(isinstance(effect, Apply) for effect in effects) <= 1
        assert gate.quiet_until == quiet_until
        for member, answer in enumerate(gate.state.answers):
            order_words = gate.orders[member]
            is_new = before is not None and answer != before.state.answers[member]
            if is_new and answer.result is Result.DONE and order_words[5] == RAISE_ONLY:
                raised = answer.done == order_words[1] and before is not None and before.under_way is None
                assert not raised or now >= quiet_until
        before = gate


@given(events)
def test_the_same_events_give_the_same_states(drawn: list[MailboxWritten | Landed | int]) -> None:
    assert play(drawn) == play(drawn)


@given(st.binary(min_size=HEADER_BYTES, max_size=HEADER_BYTES), st.binary(min_size=1, max_size=253))
def test_any_bytes_are_a_request_or_none(head: bytes, pdu: bytes) -> None:
    header = decode_header(head)
    if header is not None:
        assert 1 <= header.pdu_bytes <= 253
        assert framed(header, pdu)[:2] == head[:2]
    match decode_request(pdu):
        case ReadRequest(first=first, count=count) as asked:
            assert first + count <= 65_536 and len(encode_data(asked, b"")) == 2
        case WriteRequest(first=first, words=found) as asked:
            assert first + len(found) <= 65_536
            assert pdu == struct.pack(">BHHB", 16, first, len(found), 2 * len(found)) + struct.pack(
                f">{len(found)}H", *found
            )
            assert encode_written(asked) == pdu[:5]
        case NotServed(function=function):
            assert function == pdu[0] & 0x7F


@given(
    st.sampled_from([word for word in WORD_ORDERS if word]),
    st.sampled_from(["uint16", "int16", "uint32", "int32", "float32", "bool"]),
    st.data(),
)
def test_a_gate_writes_the_registers_that_the_member_meant(order: str, kind: str, data: st.DataObject) -> None:
    item = parse_row({"name": "x", "kind": "holding", "address": "0", "type": kind, "word_order": order})
    assert isinstance(item, ModbusItem)
    wanted = data.draw(st.lists(st.integers(0, 0xFFFF), min_size=item.words, max_size=item.words))
    value = value_of(item, wanted)
    assert 0 <= value < 1 << 16 * item.words
    assert words_of(item, value) == wanted
