"""Modbus TCP: item tables, block planning, decoding, the wire, the adapter."""
