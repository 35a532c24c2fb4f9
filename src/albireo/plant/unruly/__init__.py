"""Unruly devices: Modbus TCP devices that misbehave in one named way each, to see what it costs their neighbours."""
