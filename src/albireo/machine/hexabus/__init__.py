"""Hexabus: devices, the master that orders their events, and the state machines that are distributed over them."""
