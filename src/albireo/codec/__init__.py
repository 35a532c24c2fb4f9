"""Codecs: bytes <-> values, one module per format; total over hostile bytes. No I/O."""
