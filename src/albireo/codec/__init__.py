"""Bytes <-> values, one module per wire format; total over hostile bytes. No I/O."""
