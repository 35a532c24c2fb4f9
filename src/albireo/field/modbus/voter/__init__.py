"""Voting with the registers of a PLC, over the connection of its adapter; the test before it may vote."""
