"""docs/plc/guard.st and `machine.output.mailbox.scan` do the same: both run on the same registers, order by order.

The text that a PLC programmer copies is run here by an interpreter (`structured_text.py`); the other side is the
simulated PLC's program. After each scan all 28 registers, the guard and the targets must be equal.
"""

import random
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albireo.machine.output.mailbox import MAILBOX_REGISTERS, MEMBERS, STATUS_REGISTERS, MailboxOrder, encode_order
from albireo.plant.tunnel.plc.memory import Area, PlainMemory, WordStore
from albireo.plant.tunnel.plc.pair_area import OutputGuard
from tests.parts.structured_text import Program, Scalar, StructuredTextError

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "plc" / "guard.st").read_text()
TARGETS = 32
BOX_FIELDS = "Layout Count EpochHi EpochLo Boot Target ValueHi ValueLo CrcHi CrcLo Done Result".split()
STATUS_FIELDS = "Boot Spare GuardHi GuardLo".split()


class TextPlc:
    """A PLC that runs the text."""

    def __init__(self, program: Program, boot: int) -> None:
        self._program = program
        self.boxes = {member: dict.fromkeys(BOX_FIELDS, Scalar("WORD", 0)) for member in range(MEMBERS)}
        self.status = dict.fromkeys(STATUS_FIELDS, Scalar("WORD", 0))
        self.start(boot)

    def start(self, boot: int) -> None:
        self.block = self._program.instance("Guard", {"BootCount": boot})
        self.targets = {number: Scalar("DWORD", 0) for number in range(1, TARGETS + 1)}

    @property
    def boot(self) -> int:
        return int(self.block.variables["BootCount"].value)

    def write(self, member: int, first: int, words: list[int]) -> None:
        for place, word in enumerate(words, first):
            self.boxes[member][BOX_FIELDS[place]] = Scalar("WORD", word)

    def scan(self) -> None:
        self.block(Mailboxes=self.boxes, Status=self.status, Targets=self.targets)

    @property
    def registers(self) -> list[int]:
        boxes = [self.boxes[member][field].value for member in range(MEMBERS) for field in BOX_FIELDS]
        return boxes + [self.status[field].value for field in STATUS_FIELDS]


class ModelPlc:
    """The simulated PLC's program."""

    def __init__(self, boot: int) -> None:
        self._memory = PlainMemory((Area(0, MEMBERS * MAILBOX_REGISTERS + STATUS_REGISTERS),), WordStore())
        self.guard = OutputGuard(self._memory, 0, boot, TARGETS)

    def write(self, member: int, first: int, words: list[int]) -> None:
        self._memory.put(member * MAILBOX_REGISTERS + first, words)

    @property
    def registers(self) -> list[int]:
        return self._memory.words(0, MEMBERS * MAILBOX_REGISTERS + STATUS_REGISTERS)


class Both:
    """One history, two PLCs."""

    def __init__(self, program: Program, boot: int) -> None:
        self.text = TextPlc(program, boot)
        self.model = ModelPlc(boot)
        self.scan()

    def write(self, member: int, words: list[int], first: int = 0) -> None:
        self.text.write(member, first, words)
        self.model.write(member, first, words)

    def restart(self) -> None:
        self.text.start(self.text.boot)
        self.model.guard.restart()

    def scan(self) -> None:
        self.text.scan()
        self.model.guard.scan()

    def difference(self) -> str:
        """What differs; empty: nothing."""
        state = self.model.guard.state
        targets = tuple(self.text.targets[number].value for number in range(1, TARGETS + 1))
        if self.text.registers != self.model.registers:
            return f"registers: text {self.text.registers}, model {self.model.registers}"
        if targets != state.targets:
            return f"targets: text {targets}, model {state.targets}"
        return "" if self.text.boot == state.boot else f"boot: text {self.text.boot}, model {state.boot}"


def order_words(draw: Callable[[list[int]], int], boot: int) -> list[int]:
    """An order, mostly a sound one; sometimes with another layout or field, or with a register that was torn."""
    order = MailboxOrder(
        count=draw([1, 2, 3, 0xFFFF]),
        epoch=draw([1, 2, 5, 6, 0x1_0000, 0xFFFF_FFFF]),
        boot=(boot + draw([0, 0, 0, 0, 0, 1, 0xFFFF])) & 0xFFFF,
        target=draw([0, 1, 2, 32, 32, 33, 0x7FFF, 0x8000, 0xFFFF]),
        value=draw([0, 1, 0xFFFF, 0x1_0000, 0x4118_0000, 0xFFFF_FFFF]),
    )
    words = list(encode_order(order))
    kind = draw([0, 0, 0, 0, 0, 1, 2, 3])
    if kind == 1:
        words[draw(list(range(10)))] ^= 1 << draw(list(range(16)))
    elif kind == 2:
        # A right checksum over what no member writes.
        words[draw([0, 1, 2, 3])] = draw([0, 0xA1C0, 0xA1C2])
        words[8:] = divmod(crc32(b"".join(word.to_bytes(2, "big") for word in words[:8])), 1 << 16)
    elif kind == 3:
        words[5:] = [0] * 5
    return words


def step(both: Both, draw: Callable[[list[int]], int]) -> None:
    """Something happens to both PLCs, then they scan."""
    member = draw([0, 1])
    what = draw([0, 0, 0, 0, 0, 0, 1, 2, 3])
    if what == 1:
        both.restart()
    elif what == 2:
        both.write(member, [0] * MAILBOX_REGISTERS)
    elif what == 3:
        both.write(member, [draw([0, 1, 7, 0xFFFF])], first=draw([1, 10, 11]))
    else:
        both.write(member, order_words(draw, both.text.boot))
    both.scan()


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_text_and_model_agree_after_every_scan(data: st.DataObject) -> None:
    both = Both(Program(TEXT), data.draw(st.sampled_from([0, 1, 0xFFFE, 0xFFFF])))
    assert both.difference() == ""
    for _ in range(data.draw(st.integers(1, 12))):
        step(both, lambda choices: data.draw(st.sampled_from(choices)))
        assert both.difference() == ""


def run(program: Program, seed: int, steps: int) -> str:
    """The first difference of a seeded history."""
    drawn = random.Random(seed)
    both = Both(program, drawn.choice([0, 1, 0xFFFE, 0xFFFF]))
    for _ in range(steps):
        if found := both.difference():
            return found
        step(both, drawn.choice)
    return both.difference()


@pytest.mark.slow
def test_text_and_model_agree_in_long_histories() -> None:
    program = Program(TEXT)
    assert [run(program, seed, steps=100) for seed in range(12)] == [""] * 12


BROKEN = {
    "guard not compared": ("OR Epoch < Highest", ""),
    "own epoch refused": ("Epoch < Highest", "Epoch <= Highest"),
    "boot number not compared": ("Box.Boot <> BootCount OR ", ""),
    "guard not raised": ("            Highest := Epoch;\n", ""),
    "checksum not compared": ("OR Crc <> (", "OR Epoch <> Epoch AND Crc <> ("),
    "checksum of the wrong polynomial": ("16#EDB88320", "16#EDB88321"),
    "checksum not inverted": ("NOT CrcStep", "CrcStep"),
    "checksum low byte first": ("SHR(Register, 8)", "Register AND 16#00FF"),
    "layout not compared": ("Box.Layout <> 16#A1C1 OR ", ""),
    "epoch 0 taken": ("OR Epoch = 0\n", "\n"),
    "target beyond the last": ("Box.Target) > TargetCount", "Box.Target) > 33"),
    "same order twice": ("AND Box.Count <> Done[Member]", ""),
    "order 0 answered": ("Box.Count <> 0 AND ", ""),
    "answer not kept": ("        Done[Member] := Box.Count;\n", ""),
    "answer not shown": ("        Mailboxes[Member].Done := Box.Count;\n", ""),
    "empty order writes": ("IF Box.Target <> 0 THEN", "IF TRUE THEN"),
    "value halves swapped": ("WORD_TO_DWORD(Box.ValueHi), 16)", "WORD_TO_DWORD(Box.ValueLo), 16)"),
    "guard shown in halves swapped": ("Status.GuardHi", "Status.GuardLo"),
    "only one mailbox": ("FOR Member := 0 TO 1 DO", "FOR Member := 0 TO 0 DO"),
    "same boot number at each start": ("    IF BootCount = 16#FFFF THEN", "    IF BootCount = BootCount THEN"),
    "stale told as bad": (".Result := 2", ".Result := 3"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_text_is_noticed(name: str) -> None:
    """Each shortcut that a hurried programmer might take differs from the model, or is refused as not portable."""
    old, new = BROKEN[name]
    assert TEXT.count(old) >= 1
    broken = Program(TEXT.replace(old, new))

    def differs(seed: int) -> bool:
        try:
            return bool(run(broken, seed, steps=60))
        except StructuredTextError:
            return True

    assert any(differs(seed) for seed in range(20))
