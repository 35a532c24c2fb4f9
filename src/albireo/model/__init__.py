"""Values: what the platform talks about. No I/O, no clock."""
