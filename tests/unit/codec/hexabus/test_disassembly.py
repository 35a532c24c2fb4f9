"""Programs as lines."""

from albireo.codec.hexabus.disassembly import disassembled
from albireo.codec.hexabus.program import HEAD, NOTHING, SmOp, decode_program


def test_each_kind_of_instruction_has_its_line() -> None:
    code = [
        bytes([SmOp.LD_SOURCE_EID]),
        bytes([SmOp.LD_U32, 0, 0, 1, 4]),
        bytes([SmOp.CMP_EQ]),
        bytes([SmOp.JZ, 0, 12]),
        bytes([SmOp.CMP_SRC_IP, 0x23, 0xAB, 0xCD]),
        bytes([SmOp.LD_MEM, 0x90, 16]),
        bytes([SmOp.OP_SWITCH_8, 1, 0xFE, 0, 0]),
        bytes([SmOp.LD_SYSTIME]),
        bytes([SmOp.OP_DT_DECOMPOSE, 0x41]),
        bytes([SmOp.OP_DUP_I, 3]),
        bytes([SmOp.POP]),
        bytes([SmOp.LD_FLOAT, 0x3F, 0x80, 0, 0]),
        bytes([SmOp.LD_TRUE]),
        bytes([SmOp.RET]),
    ]
    program = decode_program(HEAD.pack(0, 7, NOTHING, 41) + b"".join(code))
    assert program is not None
    assert disassembled(program) == [
        "init:",
        "0007  LD_SOURCE_EID",
        "0008  LD_U32 260",
        "000d  CMP_EQ",
        "000e  JZ 001d",
        "0011  CMP_SRC_IP 2 abcd",
        "0015  LD_MEM FLOAT 16",
        "0018  OP_SWITCH_8 -2:001d",
        "001d  LD_SYSTIME",
        "001e  OP_DT_DECOMPOSE second weekday",
        "0020  OP_DUP_I 3",
        "0022  POP",
        "0023  LD_FLOAT 1.0",
        "0028  LD_TRUE",
        "periodic:",
        "0029  RET",
    ]
