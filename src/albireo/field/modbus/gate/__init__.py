"""The gate: the only path to a PLC that cannot refuse late orders itself."""
