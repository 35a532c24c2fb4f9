"""Links between actors: ZeroMQ sockets, TCP with CURVE, keys, and who is let in."""
