"""Programs of state machines as lines that people read.

0007  LD_SOURCE_EID
0008  LD_U32 4
000d  CMP_EQ
000e  JZ 0031
"""

from albireo.codec.hexabus.program import JUMPS, MEMORY, SmInstruction, SmOp, SmProgram
from albireo.codec.hexabus.values import HexType

MASK = ("second", "minute", "hour", "day", "month", "year", "weekday")


def disassembled(program: SmProgram) -> list[str]:
    """A line for each instruction, each vector before the one with which it begins."""
    vectors = {"init": program.init, "packet": program.packet, "periodic": program.periodic}
    lines = []
    for at in sorted(program.instructions):
        lines += [f"{name}:" for name, begin in vectors.items() if begin == at]
        lines.append(f"{at:04x}  {_line(program.instructions[at])}")
    return lines


def _line(one: SmInstruction) -> str:
    name = one.op.name
    if one.op in JUMPS:
        return f"{name} {one.target:04x}"
    if one.op in MEMORY:
        return f"{name} {HexType(int(one.immediate) >> 12).name} {int(one.immediate) & 0xFFF}"
    if one.op is SmOp.OP_DT_DECOMPOSE:
        return f"{name} {' '.join(part for bit, part in enumerate(MASK) if int(one.immediate) >> bit & 1)}"
    if one.op is SmOp.CMP_SRC_IP:
        return f"{name} {one.first} {one.block.hex()}"
    if one.cases:
        return f"{name} {' '.join(f'{case.signed}:{case.target:04x}' for case in one.cases)}"
    return name if one.following == one.at + 1 else f"{name} {one.immediate}"
